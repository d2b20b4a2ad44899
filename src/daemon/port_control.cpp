#include "daemon/port_control.hpp"

#include <algorithm>
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

PortControl::PortControl(const Parts& parts, const SharedByInterfaces& shared)
    : parts_(parts),
      context_(shared.context),
      trace_(shared.control_trace),
      signals_(context_, SIGTERM, SIGINT),
      authority_alarm_(context_, [this] { on_authority_time(); }),
      port_alarm_(context_, [this] { on_port_event(); }),
      port_watch_(context_, parts.port.descriptor(), [this] { on_port_event(); }),
      authority_watch_(context_, parts.authority.descriptor(), [this] { on_authority_readable(); }),
      interfaces_(shared, *this, *this, parts.log) {}

PortControl::Ended PortControl::run() {
  wait_for_signal();
  on_port_event();
  context_.run();
  if (stopping_) ended_.reason.clear();
  return ended_;
}

void PortControl::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    if (std::exchange(stopping_, true)) {  // asked twice: do not wait for anybody
      interfaces_.abandon();
      return context_.stop();
    }
    parts_.log.info("{}: leaving the groups and removing the interfaces", strsignal(number));
    notify_service_manager("STOPPING=1");
    parts_.authority.end(monotonic_now());
    settle();
    interfaces_.stop({});
    wait_for_signal();
  });
}

void PortControl::on_port_event() {
  const auto findings = parts_.port.update();
  const auto now = monotonic_now();
  trace_.record("port event", now, findings.changed, findings.reregister);
  if (findings.device_failed) return lose_device(kDeviceFailed);
  if (parts_.port.retry().is_failing()) port_alarm_.set(now + parts_.port.retry().pause());
  if (!findings.changed && !findings.reregister) return;
  parts_.authority.on_port(parts_.port.snapshot(), now);
  if (findings.changed) interfaces_.on_port(parts_.port.snapshot());
  if (findings.reregister) interfaces_.on_client_reregister();
  settle();
}

void PortControl::on_authority_readable() {
  parts_.authority.on_readable(monotonic_now());
  if (parts_.authority.has_failed()) return lose_device(kMadsFailed);
  settle();
}

/// Both of its descriptors may stay readable from now on.
void PortControl::lose_device(const std::string& reason) {
  ended_.device_lost = true;
  port_watch_.stop();
  authority_watch_.stop();
  interfaces_.stop({Ending::Kind::failed, reason});
}

void PortControl::on_authority_time() {
  parts_.authority.on_time(monotonic_now());
  settle();
}

void PortControl::send(const wire::SaRequest& request) {
  if (ended_.device_lost) {  // no response will come
    const wire::SaFailure failure(wire::SaFailure::Kind::no_sm);
    return interfaces_.on_response({request.id, failure});
  }
  parts_.authority.request(request, monotonic_now());
  settle();
}

/// After each stimulus of the authority: hands out its responses and notices, and arms the timer.
void PortControl::settle() {
  for (const auto& response : std::exchange(parts_.authority.responses(), {})) {
    interfaces_.on_response(response);
  }
  for (const auto& notice : std::exchange(parts_.authority.notices(), {})) {
    trace_.record("notice", monotonic_now(), notice.trap_number);
    interfaces_.on_notice(notice);
  }
  authority_alarm_.set(parts_.authority.next_deadline());
}

void PortControl::on_finished(const std::string& reason) {
  ended_.reason = reason;
  context_.stop();
}

}  // namespace ipoib::daemon
