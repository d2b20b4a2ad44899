#include "daemon/served_port.hpp"

#include <utility>

#include "daemon/port/port_watcher.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {

namespace {
constexpr const char* kDeviceFailed = "the RDMA device has failed or was removed";
// The number of requests of test(): the last one that an id has room for, which no interface
// reaches.
constexpr InterfaceNumber kTests{(1U << 24U) - 1};
// Pause between two queries of a port that is not active: there is no event for DOWN to INIT.
constexpr std::chrono::seconds kInactivePause{1};
// Between two looks at packets that the port has refused: there is no event for them.
constexpr std::chrono::seconds kViolationsPause{5};
constexpr const char* kMadsFailed = "the device for management datagrams has failed or was removed";
}  // namespace

ServedPort::ServedPort(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      sa_timer_(dependencies_.context, [this] { on_sa_timer(); }),
      port_timer_(dependencies_.context, [this] { update(); }),
      violations_timer_(dependencies_.context, [this] { look_for_violations(); }),
      port_watch_(dependencies_.context, dependencies_.port.descriptor(), [this] { update(); }),
      sa_watch_(dependencies_.context, dependencies_.sa.descriptor(),
                [this] { on_sa_readable(); }) {
  look_for_violations();
}

void ServedPort::update() {
  if (is_lost_) return;
  auto& port = dependencies_.port;
  auto& sa = dependencies_.sa;
  auto& interfaces = dependencies_.interfaces;
  const auto changes = port.update();
  const auto now = monotonic_now();
  dependencies_.trace.record("port event", now, changes.changed, changes.reregister);
  if (changes.device_failed) return lose(kDeviceFailed);
  if (port.retry().is_failing()) {
    port_timer_.set(now + port.retry().pause());
  } else if (!port.snapshot().active) {
    port_timer_.set(now + kInactivePause);
  }
  for (const void* const object : changes.failed_objects) interfaces.on_event(ObjectFailed{object});
  if (!changes.changed && !changes.reregister) return;
  sa.on_port(port.snapshot(), now);
  if (changes.reregister) sa.on_client_reregister();
  if (changes.changed) pass_on();
  if (changes.reregister) interfaces.on_event(ClientReregister{dependencies_.role});
  dispatch();
  if (changes.changed) dependencies_.on_changed();
}

void ServedPort::look_for_violations() {
  dependencies_.port.report_violations();
  violations_timer_.set(monotonic_now() + kViolationsPause);
}

void ServedPort::pass_on() {
  auto snapshot = dependencies_.port.snapshot();
  snapshot.silent = is_silent_;
  dependencies_.interfaces.on_event(PortUpdate{dependencies_.role, std::move(snapshot)});
}

/// On RoCE there is no SA that would answer over the fabric.
bool ServedPort::can_test() const {
  const auto& port = snapshot();
  return !is_lost_ && port.link_layer == verbs::LinkLayer::infiniband &&
         sa_destination(port).has_value();
}

/// Requests the path from the port to itself, which each SA knows.
void ServedPort::test(std::uint64_t round) {
  const auto& own = snapshot().gid;
  const auto first = first_link_request(kTests, dependencies_.role).value();
  request({wire::SaRequestId(first + round % (kRequestsPerPort / 2)),
           wire::path_query(own, own, kDefaultPKey)});
}

void ServedPort::set_silent(bool silent) {
  if (is_lost_ || std::exchange(is_silent_, silent) == silent) return;
  pass_on();
}

void ServedPort::request(const wire::SaRequest& request) {
  if (is_lost_) {  // no response will come
    const wire::SaFailure failure(wire::SaFailure::Kind::no_sm);
    return dependencies_.interfaces.on_event(wire::SaResponse{request.id, failure});
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
  violations_timer_.set(kNever);
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

void ServedPort::on_tested(const wire::SaResponse& response) {
  const auto* const failure = std::get_if<wire::SaFailure>(&response.result);
  const bool answered = failure == nullptr || failure->kind != wire::SaFailure::Kind::timeout;
  dependencies_.on_tested(response.id.value() % (kRequestsPerPort / 2), answered);
}

void ServedPort::lose(const char* reason) {
  stop();
  dependencies_.on_lost(reason);
}

/// Distributes responses and notices of the SA and arms its timer. To be called after each
/// stimulus.
void ServedPort::dispatch() {
  for (const auto& response : std::exchange(dependencies_.sa.responses(), {})) {
    if (interface_of(response.id) == kTests) {
      on_tested(response);
    } else {
      dependencies_.interfaces.on_event(response);
    }
  }
  for (const auto& notice : std::exchange(dependencies_.sa.notices(), {})) {
    dependencies_.trace.record("notice", monotonic_now(), notice.trap_number);
    dependencies_.interfaces.on_event(SubnetNotice{notice, dependencies_.role});
  }
  sa_timer_.set(dependencies_.sa.next_deadline());
}

}  // namespace ipoib::daemon
