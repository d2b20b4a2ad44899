#include "daemon/served_port.hpp"

#include <utility>

#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {

namespace {
constexpr const char* kDeviceFailed = "the RDMA device has failed or was removed";
constexpr const char* kMadsFailed = "the device for management datagrams has failed or was removed";
}  // namespace

ServedPort::ServedPort(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      sa_timer_(dependencies_.context, [this] { on_sa_timer(); }),
      port_timer_(dependencies_.context, [this] { update(); }),
      port_watch_(dependencies_.context, dependencies_.port.descriptor(), [this] { update(); }),
      sa_watch_(dependencies_.context, dependencies_.sa.descriptor(),
                [this] { on_sa_readable(); }) {}

void ServedPort::update() {
  if (is_lost_) return;
  auto& [context, role, port, sa, interfaces, trace, on_lost] = dependencies_;
  const auto changes = port.update();
  const auto now = monotonic_now();
  trace.record("port event", now, changes.changed, changes.reregister);
  if (changes.device_failed) return lose(kDeviceFailed);
  if (port.retry().is_failing()) port_timer_.set(now + port.retry().pause());
  for (const void* const object : changes.failed_objects) interfaces.on_object_failed(object);
  if (!changes.changed && !changes.reregister) return;
  sa.on_port(port.snapshot(), now);
  if (changes.reregister) sa.on_client_reregister();
  if (changes.changed) interfaces.on_port(role, port.snapshot());
  if (changes.reregister) interfaces.on_client_reregister(role);
  dispatch();
}

void ServedPort::request(const wire::SaRequest& request) {
  if (is_lost_) {  // no response will come
    const wire::SaFailure failure(wire::SaFailure::Kind::no_sm);
    return dependencies_.interfaces.on_response({request.id, failure});
  }
  dependencies_.sa.request(request, monotonic_now());
  dispatch();
}

void ServedPort::end() {
  if (is_lost_) return;
  dependencies_.sa.end(monotonic_now());
  dispatch();
}

/// The descriptors of a lost device may stay readable.
void ServedPort::stop() {
  is_lost_ = true;
  port_timer_.set(kNever);
  sa_timer_.set(kNever);
  port_watch_.stop();
  sa_watch_.stop();
}

void ServedPort::on_sa_readable() {
  dependencies_.sa.on_readable(monotonic_now());
  if (dependencies_.sa.has_failed()) return lose(kMadsFailed);
  dispatch();
}

void ServedPort::on_sa_timer() {
  dependencies_.sa.on_time(monotonic_now());
  dispatch();
}

void ServedPort::lose(const char* reason) {
  stop();
  dependencies_.on_lost(reason);
}

/// Distributes responses and notices of the SA and arms its timer. To be called after each
/// stimulus.
void ServedPort::dispatch() {
  for (const auto& response : std::exchange(dependencies_.sa.responses(), {})) {
    dependencies_.interfaces.on_response(response);
  }
  for (const auto& notice : std::exchange(dependencies_.sa.notices(), {})) {
    dependencies_.trace.record("notice", monotonic_now(), notice.trap_number);
    dependencies_.interfaces.on_notice(dependencies_.role, notice);
  }
  sa_timer_.set(dependencies_.sa.next_deadline());
}

}  // namespace ipoib::daemon
