// softib subnet: runs a subnet in the foreground until SIGTERM or SIGINT.
#include <spdlog/sinks/stdout_color_sinks.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <csignal>
#include <iostream>

#include "ipoib/log.hpp"
#include "ipoib/service_manager.hpp"
#include "softib/commands.hpp"
#include "softib/subnet_process.hpp"
#include "wire/sa_values.hpp"

namespace softib {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kUsageText =
    "usage: softib subnet [OPTION]...\n\n"
    "Runs an emulated InfiniBand subnet: switch, subnet manager and subnet administrator.\n"
    "Says \"ready\" on stdout when programs can use it, and ends on SIGTERM or SIGINT.\n\n";

po::options_description subnet_options() {
  po::options_description options("Options");
  options.add_options()(
      "partition", po::value<std::vector<std::string>>()->composing()->value_name("PARTITION"),
      "PKEY=full|limited[:HCA,...][,mtu=OCTETS][,rate=GBITS][,nogroup]; may be repeated, also for "
      "one P_Key. Without HCAs everybody is a member. Its broadcast group is made beforehand, "
      "unless nogroup. Partition 0x7fff (all full members, mtu as the ports', rate 10) is there by "
      "default")("mtu", po::value<std::uint32_t>()->default_value(2048)->value_name("OCTETS"),
                 "MTU of the ports and of the broadcast groups: 2048 or 4096")(
      "seed", po::value<std::uint64_t>()->default_value(0)->value_name("N"),
      "number from which, with the names of the HCAs, the GUIDs are made")(
      "capture", po::value<std::string>()->value_name("FILE"),
      "append the packets of the subnet manager's port, sent and received, to FILE, for tshark")(
      "log", po::value<std::string>()->default_value("info")->value_name("LEVEL"),
      "log level on stderr: debug, info, warning, error, off");
  return options;
}

ipoib::Result<SubnetConfig> read_config(const po::variables_map& options) {
  SubnetConfig config;
  const auto mtu = options["mtu"].as<std::uint32_t>();
  if (mtu != 2048 && mtu != 4096) return ipoib::Error{EINVAL, "--mtu is 2048 or 4096"};
  config.mtu = ipoib::wire::mtu_code(mtu);
  config.seed = options["seed"].as<std::uint64_t>();
  if (options.contains("partition")) {
    auto partitions = make_partitions(options["partition"].as<std::vector<std::string>>());
    if (!partitions) return partitions.error();
    config.partitions = std::move(*partitions);
  }
  return config;
}

}  // namespace

int subnet_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, subnet_options(), {}, kUsageText, exit_code);
  if (!options) return exit_code;
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  auto config = read_config(*options);
  if (!config) return fail(config.error());

  const auto log = spdlog::stderr_color_st("subnet");
  log->set_level(spdlog::level::from_str((*options)["log"].as<std::string>()));
  std::string capture;
  if (options->contains("capture")) capture = (*options)["capture"].as<std::string>();

  boost::asio::io_context context(1);
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
  SubnetProcess process(context, {*folder, std::move(*config), capture}, *log);
  std::cout << "ready: subnet " << folder->name() << " in " << folder->path() << std::endl;
  ipoib::notify_service_manager("READY=1");
  context.run();
  log->info("ending");
  return kSuccess;
}

}  // namespace softib
