// ipoibd: the wiring diagram.
//
//        kernel ---- TunDevice ----+                       +---- SaClient ---- UmadPort ---- fabric
//                                  |      mailboxes        |
//                                 Pump <------------> ControlThread ---- PortWatcher, NetlinkView,
//                                  | (owns the Link)       |             signals
//        fabric --- UdQueuePair ---+                       +---- control::Server ---- ibarp
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <utility>

#include "control/server.hpp"
#include "daemon/bring_up.hpp"
#include "daemon/control_thread.hpp"
#include "daemon/interface_thread.hpp"
#include "daemon/logging.hpp"
#include "daemon/pump.hpp"
#include "daemon/service.hpp"
#include "daemon/softib_launcher.hpp"
#include "ipoib/crash_dump.hpp"
#include "ipoib/service_manager.hpp"
#include "verbs/umad_port.hpp"

namespace ipoib::daemon {
namespace {

enum ExitCode { kOrderly = 0, kFailure = 1, kUsage = 2 };

/// Whether this thread gets the signals that end the program.
void take_ending_signals(bool take) {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(take ? SIG_UNBLOCK : SIG_BLOCK, &ending, nullptr);
}

/// Everything outside of the process that an interface works with. Members are in the order in
/// which they need each other; each throws std::runtime_error that says what is missing.
struct Surroundings {
  Surroundings(verbs::Device opened, const Options& options, const Logging& logs)
      : device(std::move(opened)),
        port(device.query(options.link.pkey).value()),
        pools(port.max_mtu, options.link, options.queues),
        queue_pair(
            verbs::UdQueuePair::create(device, port.max_mtu, options.queues, *logs.verbs).value()),
        tun((register_pools(), host::TunDevice::open({.name = options.interface}).value())),
        mads(verbs::UmadPort::open(device.name(), device.port()).value()),
        netlink(host::NetlinkView::open(tun->interface_index()).value()) {}

  const verbs::Device device;
  const verbs::PortSnapshot port;
  Pools pools;
  const std::unique_ptr<verbs::UdQueuePair> queue_pair;
  const std::unique_ptr<host::TunDevice> tun;
  const std::unique_ptr<verbs::UmadPort> mads;
  const std::unique_ptr<host::NetlinkView> netlink;

 private:
  void register_pools() {
    queue_pair->register_pool(pools.host).value();
    queue_pair->register_pool(pools.arp).value();
  }
};

/// Runs the interface until a signal ends it; throws std::runtime_error when something else does.
void serve(const Options& options, Logging& logs, Surroundings& around) {
  TraceRings rings;
  const CrashDump crash_dump(rings, STDERR_FILENO);
  InterfaceMailbox to_interface(kMailboxCapacity);
  ControlMailbox to_control(kMailboxCapacity);
  std::random_device random;

  boost::asio::io_context context(1);
  PortWatcher watcher(around.device, options.link.pkey, *logs.verbs);
  sa::SaClient sa({}, *around.mads, *logs.sa, random());
  ControlThread control({.context = context,
                         .port = watcher,
                         .netlink = *around.netlink,
                         .sa = sa,
                         .mads = *around.mads,
                         .to_interface = to_interface,
                         .inbox = to_control,
                         .trace = rings.add("control"),
                         .log = *logs.daemon});
  const control::Server server(
      context, {.handler = control, .levels = logs.levels, .trace = rings, .log = *logs.control},
      {.interface = around.tun->name()});
  const PidFile pid_file(options.pid_file);  // now that no other daemon has the interface
  Pump pump({.link = options.link,
             .max_ip_mtu = options.max_ip_mtu,
             .seed = random(),
             .identity = {around.tun->name(), around.device.name(), around.device.port(),
                          static_cast<std::uint32_t>(::getpid())}},
            {.tun = *around.tun,
             .queue_pair = *around.queue_pair,
             .pools = around.pools,
             .inbox = to_interface,
             .outbox = to_control,
             .trace = rings.add("interface"),
             .log = *logs.daemon,
             .link_log = *logs.link});
  InterfaceThread interface([&pump] { pump.run(); }, to_interface);
  take_ending_signals(true);
  if (let_subnet_stay()) logs.daemon->info("the emulated subnet was started, and stays");
  notify_service_manager("READY=1");
  const auto reason = control.run();
  notify_service_manager("STOPPING=1");
  interface.join();
  if (!reason.empty()) throw std::runtime_error(reason);  // the interface stays, for the next one
}

int run(const Options& options, std::span<const std::string> arguments) {
  Logging logs(options.log_target, options.log);
  if (options.softib && !is_under_softib()) {
    run_under_softib(*options.softib, arguments);
  }
  take_ending_signals(false);
  std::signal(SIGPIPE, SIG_IGN);

  auto device = find_device(options, *logs.daemon);
  if (!device) return kOrderly;
  Surroundings around(std::move(*device), options, logs);
  logs.daemon->info("{} on {} port {}, partition {:#06x}{}", around.tun->name(),
                    around.device.name(), around.device.port(), options.link.pkey.value(),
                    around.tun->adopted() ? ", adopted" : "");
  serve(options, logs, around);
  around.tun->remove();
  return kOrderly;
}

}  // namespace
}  // namespace ipoib::daemon

int main(int argc, char** argv) {
  using namespace ipoib::daemon;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const auto wanted = parse_options(arguments);
    if (const auto* const text = std::get_if<Information>(&wanted)) {
      return std::fputs(text->text.c_str(), stdout) < 0 ? kFailure : kOrderly;
    }
    return run(std::get<Options>(wanted), arguments);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "ipoibd: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ipoibd: %s\n", error.what());
    return kFailure;
  }
}
