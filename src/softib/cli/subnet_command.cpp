// softib subnet: runs a subnet in the foreground until SIGTERM or SIGINT.
#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include "ipoib/descriptor_limit.hpp"
#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"
#include "ipoib/service_manager.hpp"
#include "softib/cli/capture_target.hpp"
#include "softib/cli/commands.hpp"
#include "softib/subnetd/subnet_process.hpp"
#include "softib/topology/net_loader.hpp"
#include "wire/sa_values.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kSubnetUsage =
    "usage: softib subnet [OPTION]...\n\n"
    "Runs an emulated InfiniBand subnet: switch, subnet manager and SA.\n"
    "Prints \"ready\" on stdout when programs can use it, and ends on SIGTERM or SIGINT.\n\n";

po::options_description subnet_options() {
  po::options_description options("Options");
  options.add_options()(
      "partition", po::value<std::vector<std::string>>()->composing()->value_name("PARTITION"),
      "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]; may be repeated, also for "
      "one P_Key. Without HCAs, all HCAs are members. Its broadcast group is created at start, "
      "unless nogroup. Partition 0x7fff (all full members, mtu of the ports, rate 10) exists by "
      "default")("mtu", po::value<std::uint32_t>()->default_value(2048)->value_name("BYTES"),
                 "MTU of the ports and of the broadcast groups: 2048 or 4096")(
      "sm", po::value<std::string>()->default_value("own")->value_name("WHO"),
      "who manages the subnet: own; or none, for an external subnet manager such as OpenSM on one "
      "of its HCAs, which finds switch and HCAs in their state after power-on; --mtu is then the "
      "maximum MTU of their ports")(
      "topology", po::value<std::string>()->value_name("FILE|SHAPE"),
      "switches, HCAs and cables: a net file of ibsim, the output of ibnetdiscover, or a shape "
      "such "
      "as fat-tree:4 (softib topology --help). Its HCAs are on the subnet from the start, and "
      "programs take them by name (softib run --hca); default: one switch, to which HCAs are "
      "connected as programs name them")(
      "lmc", po::value<unsigned>()->default_value(0)->value_name("N"),
      "each HCA's port has 2^N LIDs, with paths between all of them: 0 to 7")(
      "grh-required", po::bool_switch(),
      "ports require a GRH in unicast packets and in MADs to QP1, as virtual functions do: they "
      "refuse address handles without one and drop what arrives without one")(
      "seed", po::value<std::uint64_t>()->default_value(0)->value_name("N"),
      "number from which, with the name of each node, its GUIDs are derived; nodes of an earlier "
      "process of this subnet keep theirs")(
      "tied", po::bool_switch(),
      "end when the standard input ends before any byte was read from it: for scripts that start a "
      "subnet and may fail")("capture", po::value<std::string>()->value_name("FILE"),
                             "append the packets that the subnet manager's port sends and receives "
                             "to FILE, for tshark; -: "
                             "to the standard output, and \"ready\" to the standard error")(
      "log", po::value<std::string>()->default_value("info")->value_name("LEVEL"),
      "log level on stderr: debug, info, warning, error, off");
  return options;
}

/// Reads a topology, and says on the standard error what of it is left out.
ipoib::Result<topology::Topology> read_topology(const std::string& source) {
  auto file = topology::load_topology(source);
  if (!file) return ipoib::Error{file.error().code, "--topology: " + file.error().message};
  for (const auto& remark : file->remarks)
    std::fprintf(stderr, "softib subnet: %s\n", remark.c_str());
  if (file->more_remarks != 0) {
    std::fprintf(stderr, "softib subnet: and %zu more remarks\n", file->more_remarks);
  }
  const auto& [switches, hcas, cables] = file->topology;
  if (switches.empty()) return ipoib::Error{EINVAL, "--topology: " + source + " has no switch"};
  const auto is_reserved = [](const auto& each) { return each.name == subnet::kSmName; };
  if (std::ranges::any_of(switches, is_reserved) || std::ranges::any_of(hcas, is_reserved)) {
    return ipoib::Error{EINVAL, "--topology: '" + std::string(subnet::kSmName) +
                                    "' is the subnet manager's own HCA; rename that of " + source};
  }
  return std::move(file->topology);
}

/// The configuration in the options; nullopt if no option is given that describes the subnet.
ipoib::Result<std::optional<subnet::SubnetConfig>> read_config(const po::variables_map& options) {
  const auto is_given = [&](const char* name) {
    return options.contains(name) && !options[name].defaulted();
  };
  const std::array names{"partition", "mtu", "sm", "lmc", "grh-required", "seed", "topology"};
  if (std::none_of(names.begin(), names.end(), is_given)) {
    return std::optional<subnet::SubnetConfig>();
  }
  subnet::SubnetConfig config;
  const auto mtu = options["mtu"].as<std::uint32_t>();
  if (mtu != 2048 && mtu != 4096) {
    return ipoib::Error{EINVAL, "--mtu is 2048 or 4096, not " + std::to_string(mtu)};
  }
  config.mtu = ipoib::wire::mtu_code(mtu);
  const auto lmc = options["lmc"].as<unsigned>();
  if (lmc > ipoib::kMaxLmc) {
    return ipoib::Error{EINVAL, "--lmc is 0 to 7, not " + std::to_string(lmc)};
  }
  config.lmc = static_cast<std::uint8_t>(lmc);
  config.grh_required = options["grh-required"].as<bool>();
  config.seed = options["seed"].as<std::uint64_t>();
  const auto& sm = options["sm"].as<std::string>();
  if (sm != "own" && sm != "none") {
    return ipoib::Error{EINVAL, "--sm is own or none, not '" + sm + "'"};
  }
  if (sm == "none") config.management = subnet::Management::external_sm;
  if (sm == "none" && (options.contains("partition") || !options["lmc"].defaulted())) {
    return ipoib::Error{EINVAL,
                        "--partition and --lmc need --sm own: an external subnet manager decides "
                        "on them"};
  }
  if (options.contains("topology")) {
    auto topology = read_topology(options["topology"].as<std::string>());
    if (!topology) return topology.error();
    config.topology = std::move(*topology);
  }
  if (options.contains("partition")) {
    const auto& texts = options["partition"].as<std::vector<std::string>>();
    for (const auto& text : texts) {
      const auto remark = ipoib::remark_on_pkey(std::string_view(text).substr(0, text.find('=')));
      if (!remark.empty()) std::fprintf(stderr, "softib subnet: %s\n", remark.c_str());
    }
    auto partitions = subnet::make_partitions(texts);
    if (!partitions) return partitions.error();
    config.partitions = std::move(*partitions);
    const auto checked = subnet::check_mtus(config.partitions, config.mtu);
    if (!checked) return checked.error();
  }
  return std::optional(config);
}

ipoib::Result<spdlog::level::level_enum> read_level(const std::string& name) {
  for (const std::string_view known : {"debug", "info", "warning", "error", "off"}) {
    if (name == known) return spdlog::level::from_str(name);
  }
  return ipoib::Error{EINVAL, "--log is debug, info, warning, error or off, not '" + name + "'"};
}

/// --tied: ends the subnet if standard input ends before any byte was read. The process that held
/// the other end may still be detaching from its HCA then; the folder can be removed only after
/// that.
class TiedInput {
 public:
  TiedInput(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : context_(context),
        process_(process),
        input_(context, ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)),
        timer_(context) {
    input_.async_read_some(boost::asio::buffer(byte_),
                           [this](boost::system::error_code error, std::size_t) {
                             if (error) end_when_unused();
                           });
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{10};
  static constexpr int kMaxPolls = 500;

  void end_when_unused() {
    if (process_.is_unused() || ++polls_ > kMaxPolls) return context_.stop();
    timer_.expires_after(kPollInterval);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) end_when_unused();
    });
  }

  boost::asio::io_context& context_;
  const subnetd::SubnetProcess& process_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::steady_timer timer_;
  std::array<char, 1> byte_{};
  int polls_ = 0;
};

/// Ends the subnet when others have removed its folder: nobody could find it, use it or stop it.
class FolderWatch {
 public:
  FolderWatch(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : context_(context), process_(process), timer_(context) {
    look_later();
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  static constexpr std::chrono::seconds kInterval{2};

  void look_later() {
    timer_.expires_after(kInterval);
    timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      has_failed_ = !process_.has_folder();
      if (has_failed_) return context_.stop();
      look_later();
    });
  }

  boost::asio::io_context& context_;
  const subnetd::SubnetProcess& process_;
  boost::asio::steady_timer timer_;
  bool has_failed_ = false;
};

}  // namespace

int subnet_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, subnet_options(), {}, kSubnetUsage, exit_code);
  if (!options) return exit_code;
  const auto config = read_config(*options);
  if (!config) return fail_usage("subnet", config.error().message);
  const auto level = read_level((*options)["log"].as<std::string>());
  if (!level) return fail_usage("subnet", level.error().message);
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());

  ipoib::raise_descriptor_limit();
  const auto log = spdlog::stderr_color_st("subnet");
  log->set_pattern(ipoib::kLogPattern);
  log->set_level(*level);
  std::string capture;
  if (options->contains("capture")) {
    const auto target = capture_target((*options)["capture"].as<std::string>());
    if (!target) return fail(target.error());
    capture = *target;
  }

  boost::asio::io_context context(1);
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
  subnetd::SubnetProcess process(context, {*folder, *config, capture}, *log);
  if (print("ready: subnet " + folder->name() + " in " + folder->path() + '\n') != kSuccess) {
    return kFailure;
  }
  ipoib::notify_service_manager("READY=1");
  std::optional<TiedInput> tied;
  if ((*options)["tied"].as<bool>()) tied.emplace(context, process);
  const FolderWatch watch(context, process);
  context.run();
  if (watch.has_failed()) {
    return fail(
        ipoib::Error{ENOENT, "the folder of the subnet has been removed: " + folder->path() +
                                 "; programs on the subnet can no longer reach it"});
  }
  log->info("ending");
  return kSuccess;
}

}  // namespace softib::cli
