// softib subnet: runs a subnet in the foreground until SIGTERM or SIGINT.

#include <algorithm>
#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <cstdio>
#include <optional>

#include "ipoib/pkey_table.hpp"
#include "softib/cli/capture_target.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/serve.hpp"
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

}  // namespace

int subnet_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, subnet_options(), {}, kSubnetUsage, exit_code);
  if (!options) return exit_code;
  const auto config = read_config(*options);
  if (!config) return fail_usage("subnet", config.error().message);
  const auto level = read_log_level(*options);
  if (!level) return fail_usage("subnet", level.error().message);
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  std::string capture;
  if (options->contains("capture")) {
    const auto target = capture_target((*options)["capture"].as<std::string>());
    if (!target) return fail(target.error());
    capture = *target;
  }
  return serve_subnet({*folder, *config, capture},
                      {.log_level = *level, .is_tied = (*options)["tied"].as<bool>()});
}

}  // namespace softib::cli
