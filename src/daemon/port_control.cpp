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
      sa_alarm_(context_, [this] { on_sa_time(); }),
      port_alarm_(context_, [this] { on_port_event(); }),
      port_watch_(context_, parts.port.descriptor(), [this] { on_port_event(); }),
      mad_watch_(context_, parts.mads.fd(), [this] { on_mad(); }),
      interfaces_(shared, *this, parts.log) {}

PortControl::Ended PortControl::run() {
  if (!parts_.mads.takes_reports()) {
    parts_.log.info(
        "another program has the subnet administrator's reports: changes of groups and paths are "
        "found out by asking from time to time");
  }
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
    end_subscriptions();
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
  if (findings.changed) {
    parts_.sa.set_sm(subnet_administrator(parts_.port.snapshot()), now);
    interfaces_.on_port(parts_.port.snapshot());
  }
  if (findings.reregister) interfaces_.on_client_reregister();
  if (findings.changed || findings.reregister) renew_subscriptions();
}

/// Whatever has changed of the port may be how the administrator knows it.
void PortControl::renew_subscriptions() {
  const bool can_ask = subnet_administrator(parts_.port.snapshot()).has_value();
  if (parts_.mads.takes_reports() && !stopping_ && can_ask) {
    parts_.subscriptions.renew();
  } else {
    parts_.subscriptions.suspend();
  }
  settle();
}

/// Nobody waits for the answers: an administrator that has not heard gives up by itself.
void PortControl::end_subscriptions() {
  for (const auto& query : parts_.subscriptions.ends()) {
    ask(Question{{}, Question::Kind::subscription, {}}.name(), query);
  }
  parts_.subscriptions.suspend();
}

void PortControl::on_mad() {
  parts_.sa.on_readable(monotonic_now());
  if (parts_.mads.failed()) return lose_device(kMadsFailed);
  settle();
}

/// Both of its descriptors may stay readable from now on.
void PortControl::lose_device(const std::string& reason) {
  ended_.device_lost = true;
  port_watch_.stop();
  mad_watch_.stop();
  interfaces_.stop({Ending::Kind::failed, reason});
}

void PortControl::on_sa_time() {
  parts_.sa.on_time(monotonic_now());
  parts_.subscriptions.on_time(monotonic_now());
  settle();
}

void PortControl::ask(sa::QueryId name, const sa::Query& query) {
  if (ended_.device_lost) {  // there is nobody to wait for
    return interfaces_.on_answer({name, sa::SaFailure{sa::FailureKind::no_sm, {}, {}}});
  }
  parts_.sa.ask(name, query, monotonic_now());
  settle();
}

/// After each stimulus of the client: hands out its answers and notices, puts the port's own
/// questions, and arms the timer.
void PortControl::settle() {
  const auto now = monotonic_now();
  auto& subscriptions = parts_.subscriptions;
  for (const auto& [id, query] : std::exchange(subscriptions.questions(), {})) {
    const Question question{{}, Question::Kind::subscription, link::QuestionId(id)};
    parts_.sa.ask(question.name(), query, now);
  }
  for (const auto& answer : std::exchange(parts_.sa.answers(), {})) {
    const auto question = Question::of(answer.id);
    if (question.kind == Question::Kind::subscription) {
      subscriptions.on_answer(question.id.value(), answer, now);
    } else {
      interfaces_.on_answer(answer);
    }
  }
  for (const auto& notice : std::exchange(parts_.sa.notices(), {})) {
    trace_.record("notice", now, notice.trap_number);
    interfaces_.on_notice(notice);
  }
  sa_alarm_.set(std::min(parts_.sa.next_deadline(), subscriptions.next_deadline()));
}

void PortControl::on_finished(const std::string& reason) {
  ended_.reason = reason;
  context_.stop();
}

}  // namespace ipoib::daemon
