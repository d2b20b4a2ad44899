#include "daemon/port_control.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/service_manager.hpp"

namespace ipoib::daemon {

namespace {
constexpr const char* kDeviceFailed = "the RDMA device has failed or was removed";
constexpr const char* kMadsFailed = "the device for management datagrams has failed or was removed";
}  // namespace

PortControl::PortControl(const Dependencies& dependencies,
                         const Interface::Dependencies& interfaces, KeptInterfaces& kept,
                         OperatorChanges& changes, std::optional<Predecessor> predecessor)
    : dependencies_(dependencies),
      context_(interfaces.context),
      keeps_(interfaces.options.keep),
      trace_(interfaces.control_trace),
      sa_timer_(context_, [this] { on_sa_timer(); }),
      port_timer_(context_, [this] { on_port_event(); }),
      watchdog_timer_(context_, [this] { on_watchdog(); }),
      port_watch_(context_, dependencies.port.descriptor(), [this] { on_port_event(); }),
      sa_watch_(context_, dependencies.sa.descriptor(), [this] { on_sa_readable(); }),
      signal_watch_(context_, dependencies.signals.descriptor(), [this] { on_signal(); }),
      handed_(interfaces.handed),
      factory_(with_handover(interfaces)),
      interfaces_({.context = context_,
                   .factory = factory_,
                   .options = interfaces.options,
                   .kept = kept,
                   .changes = changes,
                   .owner = *this,
                   .sa = *this,
                   .handed = interfaces.handed,
                   .log = dependencies.log}),
      giver_({.context = context_,
              .interfaces = interfaces_,
              .changes = changes,
              .own = [&device = interfaces.device] { return handover::hello_of(device, {}); },
              .on_end =
                  [this] {
                    dependencies_.sa.end(monotonic_now());
                    dispatch();
                  },
              .log = dependencies.log}) {
  if (!predecessor) return;
  taker_.emplace(
      handover::Taker::Dependencies{.context = context_,
                                    .interfaces = interfaces_,
                                    .on_serving = dependencies.on_serving,
                                    .on_failure =
                                        [this](const std::string& why) {
                                          interfaces_.stop({StopReason::Kind::failed, why});
                                        },
                                    .log = dependencies.log},
      std::move(predecessor->connection), predecessor->pid);
}

Interface::Dependencies PortControl::with_handover(Interface::Dependencies interfaces) {
  interfaces.on_handover = [this](FileDescriptor connection) {
    giver_.on_connection(std::move(connection));
  };
  return interfaces;
}

void PortControl::start(const verbs::PortSnapshot& port) {
  std::set<PKey> handed;
  for (const auto& [pkey, interface] : handed_) handed.insert(pkey);
  interfaces_.start(port);
  handed_.clear();  // the others end with the other daemon
  if (taker_) {
    taker_->start(handed);
  } else {
    dependencies_.on_serving();
  }
}

PortControl::Ended PortControl::run() {
  on_port_event();
  on_watchdog();
  context_.run();
  if (stopping_) ended_.reason.clear();
  return ended_;
}

void PortControl::on_signal() {
  const auto number = dependencies_.signals.take();
  if (!number) return;
  if (*number == SIGHUP) return reload();
  if (std::exchange(stopping_, true)) {  // the second signal
    interfaces_.stop_now();
    return context_.stop();
  }
  if (giver_.end("the running ipoibd is ending")) return;
  dependencies_.log.info("{}: leaving the groups and {} the interfaces", strsignal(*number),
                         keeps_ ? "keeping" : "removing");
  notify_service_manager("STOPPING=1");
  dependencies_.sa.end(monotonic_now());
  dispatch();
  interfaces_.stop({});
}

void PortControl::reload() {
  if (stopping_) return;
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      monotonic_now().time_since_epoch());
  notify_service_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.count()));
  interfaces_.reconfigure(dependencies_.reload());
  dispatch();
  notify_service_manager("READY=1");
}

void PortControl::on_port_event() {
  const auto changes = dependencies_.port.update();
  const auto now = monotonic_now();
  trace_.record("port event", now, changes.changed, changes.reregister);
  if (changes.device_failed) return lose_device(kDeviceFailed);
  if (dependencies_.port.retry().is_failing())
    port_timer_.set(now + dependencies_.port.retry().pause());
  for (const void* const object : changes.failed_objects) interfaces_.on_object_failed(object);
  if (!changes.changed && !changes.reregister) return;
  dependencies_.sa.on_port(dependencies_.port.snapshot(), now);
  if (changes.reregister) dependencies_.sa.on_client_reregister();
  if (changes.changed) interfaces_.on_port(dependencies_.port.snapshot());
  if (changes.reregister) interfaces_.on_client_reregister();
  dispatch();
}

void PortControl::on_sa_readable() {
  dependencies_.sa.on_readable(monotonic_now());
  if (dependencies_.sa.has_failed()) return lose_device(kMadsFailed);
  dispatch();
}

/// The descriptors of a lost device may stay readable.
void PortControl::lose_device(const std::string& reason) {
  if (giver_.end(reason)) return;
  // Until then, the other daemon waits for the device.
  ended_.device_lost = !taker_ || taker_->is_over();
  port_watch_.stop();
  sa_watch_.stop();
  interfaces_.stop({StopReason::Kind::failed, reason});
}

void PortControl::on_sa_timer() {
  dependencies_.sa.on_time(monotonic_now());
  dispatch();
}

/// The service manager learns that this thread and those of the interfaces work. One that does not
/// respond makes it end the process, and start it again.
void PortControl::on_watchdog() {
  const auto period = watchdog_period();
  if (!period) return;
  if (interfaces_.threads_respond()) {
    notify_service_manager("WATCHDOG=1");
    interfaces_.check_threads();
  }
  watchdog_timer_.set(monotonic_now() + *period / 4);
}

void PortControl::on_mode(InterfaceNumber interface, PumpMode mode) {
  giver_.on_mode(interface, mode);
  if (taker_) taker_->on_mode(interface, mode);
}

void PortControl::on_status() { notify_service_manager("STATUS=" + interfaces_.status()); }

void PortControl::send(const wire::SaRequest& request) {
  if (ended_.device_lost) {  // no response will come
    const wire::SaFailure failure(wire::SaFailure::Kind::no_sm);
    return interfaces_.on_response({request.id, failure});
  }
  dependencies_.sa.request(request, monotonic_now());
  dispatch();
}

/// Distributes responses and notices of the SA and arms its timer. To be called after each
/// stimulus.
void PortControl::dispatch() {
  for (const auto& response : std::exchange(dependencies_.sa.responses(), {})) {
    interfaces_.on_response(response);
  }
  for (const auto& notice : std::exchange(dependencies_.sa.notices(), {})) {
    trace_.record("notice", monotonic_now(), notice.trap_number);
    interfaces_.on_notice(notice);
  }
  sa_timer_.set(dependencies_.sa.next_deadline());
}

void PortControl::on_finished(const std::string& reason) {
  ended_.reason = reason;
  context_.stop();
}

}  // namespace ipoib::daemon
