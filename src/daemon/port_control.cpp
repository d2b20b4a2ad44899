#include "daemon/port_control.hpp"

#include <csignal>
#include <cstring>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/service_manager.hpp"

namespace ipoib::daemon {

namespace {
constexpr const char* kDeviceFailed = "the RDMA device has failed or was removed";
}  // namespace

PortControl::PortControl(const Parts& parts, const SharedByInterfaces& shared)
    : parts_(parts),
      context_(shared.context),
      trace_(shared.control_trace),
      signals_(context_, SIGTERM, SIGINT),
      sa_alarm_(context_, [this] { on_sa_time(); }),
      port_alarm_(context_, [this] { on_port_event(); }),
      port_watch_(context_, parts.port.descriptor(), [this] { on_port_event(); }),
      mad_watch_(context_, parts.mads.fd(), [this] { on_mad(); }),
      interfaces_(shared, *this, parts.log) {}

std::string PortControl::run() {
  wait_for_signal();
  on_port_event();
  context_.run();
  return reason_;
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
    interfaces_.stop({});
    wait_for_signal();
  });
}

void PortControl::on_port_event() {
  const auto findings = parts_.port.update();
  const auto now = monotonic_now();
  trace_.record("port event", now, findings.changed, findings.reregister);
  if (findings.device_failed) return interfaces_.stop({Ending::Kind::failed, kDeviceFailed});
  if (parts_.port.retry().is_failing()) port_alarm_.set(now + parts_.port.retry().pause());
  if (findings.changed) {
    parts_.sa.set_sm(subnet_administrator(parts_.port.snapshot()), now);
    settle();
    interfaces_.on_port(parts_.port.snapshot());
  }
  if (findings.reregister) interfaces_.on_client_reregister();
}

void PortControl::on_mad() {
  parts_.sa.on_readable(monotonic_now());
  if (parts_.mads.failed()) {
    mad_watch_.stop();
    interfaces_.stop(
        {Ending::Kind::failed, "the management datagrams' device has failed or was removed"});
  }
  settle();
}

void PortControl::on_sa_time() {
  parts_.sa.on_time(monotonic_now());
  settle();
}

void PortControl::ask(sa::QueryId name, const sa::Query& query) {
  parts_.sa.ask(name, query, monotonic_now());
  settle();
}

/// After each stimulus of the client: hands out its answers, and arms its timer.
void PortControl::settle() {
  for (const auto& answer : std::exchange(parts_.sa.answers(), {})) interfaces_.on_answer(answer);
  sa_alarm_.set(parts_.sa.next_deadline());
}

void PortControl::on_finished(const std::string& reason) {
  reason_ = reason;
  context_.stop();
}

}  // namespace ipoib::daemon
