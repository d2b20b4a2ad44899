#include "daemon/control_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {

namespace {

namespace asio = boost::asio;
using Timer = asio::steady_timer;

// Enough for the administrator to answer a leave, or to have been asked again once.
constexpr std::chrono::seconds kLeavePatience{3};
// Between two dumps of the host's addresses, lest ten thousand changes be as many dumps.
constexpr std::chrono::milliseconds kHostPause{50};
// When the interface's mailbox was full.
constexpr std::chrono::milliseconds kRedeliver{10};

// A question's name at the SA: what it is, and its name at the link.
enum class Kind : std::uint32_t { join = 1, path = 2, leave = 3 };

sa::QueryId query_id(Kind kind, link::QuestionId id) {
  return sa::QueryId(std::uint64_t{static_cast<std::uint32_t>(kind)} << 32 | id.value());
}
Kind kind_of(sa::QueryId id) { return static_cast<Kind>(id.value() >> 32); }
link::QuestionId question_of(sa::QueryId id) {
  return link::QuestionId(static_cast<std::uint32_t>(id.value()));
}

template <class Message, class Record>
ToInterface answered(const sa::Answer& answer) {
  const auto id = question_of(answer.id);
  if (const auto* const record = std::get_if<Record>(&answer.result)) return Message{id, *record};
  const auto* const failure = std::get_if<sa::SaFailure>(&answer.result);
  return Message{id, link::Refusal{failure != nullptr ? failure->status : std::nullopt}};
}

}  // namespace

ControlThread::ControlThread(const Parts& parts)
    : parts_(parts),
      signals_(parts.context, SIGTERM, SIGINT),
      sa_timer_(parts.context),
      port_timer_(parts.context),
      host_timer_(parts.context),
      redeliver_timer_(parts.context),
      finish_timer_(parts.context),
      port_watch_(parts.context, parts.port.descriptor(), [this] { on_port_event(); }),
      netlink_watch_(parts.context, parts.netlink.descriptor(), [this] { on_host_event(); }),
      mad_watch_(parts.context, parts.mads.fd(), [this] { on_mad(); }),
      inbox_watch_(parts.context, parts.inbox.descriptor(), [this] { on_messages(); }) {}

std::string ControlThread::run() {
  wait_for_signal();
  on_port_event();
  look_at_host();
  parts_.context.run();
  return reason_;
}

void ControlThread::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    if (stopping_) return parts_.context.stop();  // asked twice: do not wait for anybody
    parts_.log.info("{}: leaving the groups and removing the interface", strsignal(number));
    ask_to_stop({});
    wait_for_signal();
  });
}

void ControlThread::on_port_event() {
  const auto findings = parts_.port.update();
  const auto now = monotonic_now();
  parts_.trace.record("port event", now, findings.changed, findings.reregister);
  if (findings.device_failed) return ask_to_stop("the RDMA device has failed or was removed");
  if (findings.changed) {
    parts_.sa.set_sm(subnet_administrator(parts_.port.snapshot()), now);
    port_undelivered_ = true;
  }
  reregister_undelivered_ |= findings.reregister;
  if (parts_.port.retry().is_failing()) {
    port_timer_.expires_after(parts_.port.retry().pause());
    port_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) on_port_event();
    });
  }
  deliver();
}

/// The first of many changes is looked at straight away, the others after a pause, as one.
void ControlThread::on_host_event() {
  if (!parts_.netlink.take_events() || host_timer_armed_) return;
  if (monotonic_now() >= host_not_before_) return look_at_host();
  look_at_host_later();
}

void ControlThread::look_at_host_later() {
  host_timer_armed_ = true;
  host_timer_.expires_at(Timer::time_point(host_not_before_.time_since_epoch()));
  host_timer_.async_wait([this](const boost::system::error_code& error) {
    host_timer_armed_ = false;
    if (!error) look_at_host();
  });
}

void ControlThread::look_at_host() {
  auto update = parts_.netlink.update();
  const auto now = monotonic_now();
  host_not_before_ = now + kHostPause;
  if (!update) {
    if (host_retry_.failed()) {
      parts_.log.warn("{}; looks again until it can", update.error().message);
    }
    host_not_before_ = now + std::max<Duration>(kHostPause, host_retry_.pause());
    look_at_host_later();
  } else {
    if (host_retry_.succeeded()) parts_.log.info("the host's configuration is known again");
    if (auto& view = *update) {
      parts_.trace.record("host changed", now, view->addresses.size(), view->tables.size());
      if (view->routes_left_out > 0) {
        parts_.log.warn("{} routes lead through the interface beyond the {} that are followed",
                        view->routes_left_out, HostView::kMaxRoutes);
      }
      host_undelivered_ = std::move(view);
    }
  }
  if (!parts_.netlink.interface_exists()) return ask_to_stop("the interface was deleted");
  deliver();
}

void ControlThread::on_mad() {
  parts_.sa.on_readable(monotonic_now());
  if (parts_.mads.failed()) {
    mad_watch_.stop();
    return ask_to_stop("the management datagrams' device has failed or was removed");
  }
  deliver();
}

void ControlThread::on_messages() {
  parts_.inbox.drain(messages_);
  for (auto& message : messages_) {
    std::visit([this](auto& content) { take(content); }, message);
  }
  messages_.clear();
  deliver();
}

void ControlThread::take(link::JoinGroup& message) {
  parts_.sa.ask(query_id(Kind::join, message.id), sa::JoinQuery{message.record, message.components},
                monotonic_now());
}

void ControlThread::take(link::AskPath& message) {
  parts_.sa.ask(query_id(Kind::path, message.id), sa::PathQuery{message.record, message.components},
                monotonic_now());
}

void ControlThread::take(link::LeaveGroup& message) {
  ++leaves_;
  parts_.sa.ask(query_id(Kind::leave, {}), sa::LeaveQuery{message.record, message.components},
                monotonic_now());
}

void ControlThread::take(link::HostGroupsChanged&) {
  parts_.netlink.expect_change();
  on_host_event();
}

void ControlThread::take(AdminResponse& message) { message.done(std::move(message.response)); }

void ControlThread::take(Stopped& message) {
  interface_ended_ = true;
  if (reason_.empty()) reason_ = std::move(message.reason);
  finish_timer_.expires_after(kLeavePatience);
  finish_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) parts_.context.stop();
  });
}

void ControlThread::handle(control::InterfaceRequest request,
                           std::function<void(control::Response)> done) {
  ToInterface letter(AdminRequest{request, std::move(done)});
  if (parts_.to_interface.post(std::move(letter))) return;
  std::get<AdminRequest>(letter).done(Error(EBUSY, "the interface is too busy: try again"));
}

void ControlThread::ask_to_stop(const std::string& reason) {
  if (stopping_) return;
  stopping_ = true;
  reason_ = reason;
  stop_undelivered_ = true;
  deliver();
}

/// Tells the interface's thread all that it does not know yet. What its mailbox refuses stays
/// noted, and is said again soon, as it is by then.
void ControlThread::deliver() {
  if (!deliver_changes() || !deliver_answers()) {
    redeliver_timer_.expires_after(kRedeliver);
    redeliver_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) deliver();
    });
  }
  arm_sa_timer();
  if (interface_ended_ && leaves_ == 0) parts_.context.stop();
}

bool ControlThread::deliver_changes() {
  auto& to = parts_.to_interface;
  if (port_undelivered_) {
    if (!to.post(PortChanged{port_status(parts_.port.snapshot())})) return false;
    port_undelivered_ = false;
  }
  if (reregister_undelivered_) {
    if (!to.post(ClientReregister{})) return false;
    reregister_undelivered_ = false;
  }
  if (host_undelivered_) {
    if (!to.post(HostChanged{*host_undelivered_})) return false;
    host_undelivered_.reset();
  }
  if (stop_undelivered_) {
    if (!to.post(Stop{})) return false;
    stop_undelivered_ = false;
  }
  return true;
}

bool ControlThread::deliver_answers() {
  auto& answers = parts_.sa.answers();
  std::size_t delivered = 0;
  for (const auto& answer : answers) {
    bool taken = true;
    switch (kind_of(answer.id)) {
      case Kind::join:
        taken = parts_.to_interface.post(answered<JoinAnswered, wire::McMemberRecord>(answer));
        break;
      case Kind::path:
        taken = parts_.to_interface.post(answered<PathAnswered, wire::PathRecord>(answer));
        break;
      case Kind::leave:
        --leaves_;
        break;
    }
    if (!taken) break;
    ++delivered;
  }
  const bool all = delivered == answers.size();
  answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(delivered));
  return all;
}

void ControlThread::arm_sa_timer() {
  const auto due = parts_.sa.next_deadline();
  if (due == sa_timer_due_) return;
  sa_timer_due_ = due;
  if (due == kNever) {
    sa_timer_.cancel();
    return;
  }
  sa_timer_.expires_at(Timer::time_point(due.time_since_epoch()));
  sa_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    sa_timer_due_ = kNever;
    parts_.sa.on_time(monotonic_now());
    deliver();
  });
}

}  // namespace ipoib::daemon
