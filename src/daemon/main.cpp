// ipoibd: the wiring diagram. That of each interface is in interface.hpp.
//
//        Interface ib0 --------+                  +---- SaClient ---- UmadPort ---- fabric
//                              |                  |
//        Interface ib0.8001 ---+---- PortControl -+---- PortWatcher
//                              |                  |
//        ...           --------+                  +---- signals
#include <csignal>
#include <cstdio>
#include <exception>
#include <random>
#include <utility>

#include "daemon/find_device.hpp"
#include "daemon/logging.hpp"
#include "daemon/port_control.hpp"
#include "daemon/service.hpp"
#include "daemon/softib_launcher.hpp"
#include "ipoib/crash_dump.hpp"
#include "ipoib/log.hpp"
#include "ipoib/service_manager.hpp"
#include "verbs/umad_port.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::daemon {
namespace {

enum ExitCode { kOrderly = 0, kFailure = 1, kUsage = 2 };

/// Runs the interfaces of a port until a signal ends them; throws std::runtime_error when something
/// is missing, or fails later.
void serve(const Options& options, Logging& logs, const verbs::Device& device,
           EndingSignalsBlocked& blocked) {
  TraceRings rings;
  const CrashDump crash_dump(rings, STDERR_FILENO);
  boost::asio::io_context context(1);
  const auto home = host::NetworkNamespace::open(options.netns).value();
  const auto port = device.query().value();
  const auto mads = verbs::UmadPort::open(device.name(), device.port()).value();
  PortWatcher watcher(device, *logs.verbs);
  sa::SaClient sa({}, *mads, *logs.sa, std::random_device()());
  sa::Subscriptions subscriptions(*logs.sa, std::random_device()());
  PortControl control({.port = watcher,
                       .sa = sa,
                       .subscriptions = subscriptions,
                       .mads = *mads,
                       .log = *logs.daemon},
                      {.context = context,
                       .device = device,
                       .max_mtu = port.max_mtu,
                       .options = options,
                       .home = home,
                       .logs = logs,
                       .rings = rings,
                       .control_trace = rings.add("control")});
  control.start(port);
  const PidFile pid_file(options.pid_file);  // now that no other daemon has the interfaces
  if (let_subnet_stay()) logs.daemon->info("the emulated subnet was started, and stays");
  notify_service_manager("READY=1");
  blocked.release();
  const auto reason = control.run();
  if (!reason.empty()) throw std::runtime_error(reason);
}

int run(const Options& options, std::span<const std::string> arguments) {
  Logging logs(options.log_target, options.log);
  if (options.softib && !is_under_softib()) {
    run_under_softib(*options.softib, arguments);
  }
  std::signal(SIGPIPE, SIG_IGN);
  EndingSignalsBlocked blocked;
  const auto device = find_device(options, *logs.daemon);
  if (device) serve(options, logs, *device, blocked);
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
