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
#include <random>
#include <thread>

#include "control/server.hpp"
#include "daemon/bring_up.hpp"
#include "daemon/control_thread.hpp"
#include "daemon/logging.hpp"
#include "daemon/pump.hpp"
#include "daemon/service.hpp"
#include "daemon/softib_launcher.hpp"
#include "ipoib/crash_dump.hpp"
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

int run(const Options& options, std::span<const std::string> arguments) {
  Logging logs(options.log_target, options.log);
  if (options.softib && !is_under_softib()) {
    run_under_softib(*options.softib, arguments, *logs.daemon);
  }
  take_ending_signals(false);
  std::signal(SIGPIPE, SIG_IGN);

  const auto device = find_device(options, *logs.daemon);
  if (!device) return kOrderly;
  const auto port = device->query(options.link.pkey).value();

  Pools pools(port.max_mtu, options.link, options.queues);
  const auto queue_pair =
      verbs::UdQueuePair::create(*device, port.max_mtu, options.queues, *logs.verbs).value();
  queue_pair->register_pool(pools.host).value();
  queue_pair->register_pool(pools.arp).value();
  const auto tun = host::TunDevice::open({.name = options.interface}).value();
  const auto mads = verbs::UmadPort::open(device->name(), device->port()).value();
  const auto netlink = host::NetlinkView::open(tun->interface_index()).value();

  TraceRings rings;
  const CrashDump crash_dump(rings, STDERR_FILENO);
  InterfaceMailbox to_interface(kMailboxCapacity);
  ControlMailbox to_control(kMailboxCapacity);
  std::random_device random;

  boost::asio::io_context context(1);
  PortWatcher watcher(*device, options.link.pkey, *logs.verbs);
  sa::SaClient sa({}, *mads, *logs.sa, random());
  ControlThread control({.context = context,
                         .port = watcher,
                         .netlink = *netlink,
                         .sa = sa,
                         .mads = *mads,
                         .to_interface = to_interface,
                         .inbox = to_control,
                         .trace = rings.add("control"),
                         .log = *logs.daemon});
  const control::Server server(
      context, {.handler = control, .levels = logs.levels, .trace = rings, .log = *logs.control},
      {.interface = tun->name()});
  const PidFile pid_file(options.pid_file);  // now that no other daemon has the interface
  Pump pump({.link = options.link,
             .max_ip_mtu = options.max_ip_mtu,
             .seed = random(),
             .identity = {tun->name(), device->name(), device->port(),
                          static_cast<std::uint32_t>(::getpid())}},
            {.tun = *tun,
             .queue_pair = *queue_pair,
             .pools = pools,
             .inbox = to_interface,
             .outbox = to_control,
             .trace = rings.add("interface"),
             .log = *logs.daemon,
             .link_log = *logs.link});

  logs.daemon->info("{} on {} port {}, partition {:#06x}{}", tun->name(), device->name(),
                    device->port(), options.link.pkey.value(), tun->adopted() ? ", adopted" : "");
  std::thread interface([&] { pump.run(); });
  take_ending_signals(true);
  notify_service_manager("READY=1");
  const auto reason = control.run();
  notify_service_manager("STOPPING=1");
  interface.join();
  if (!reason.empty()) throw std::runtime_error(reason);  // the interface stays, for the next one
  tun->remove();
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
