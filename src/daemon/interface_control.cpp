// In the order of an interface's life: news of port and host, questions and answers, its end.
#include "daemon/interface_control.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/interface_plan.hpp"
#include "daemon/port_watcher.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

// Enough for the administrator to answer a leave, or to have been asked again once.
constexpr std::chrono::seconds kLeavePatience{3};
// Between two dumps of the host's addresses, lest ten thousand changes be as many dumps.
constexpr std::chrono::milliseconds kHostPause{50};
// When the interface's mailbox was full.
constexpr std::chrono::milliseconds kRedeliver{10};

template <class Message, class Record>
ToInterface answered(link::QuestionId id, const sa::Answer& answer) {
  if (const auto* const record = std::get_if<Record>(&answer.result)) return Message{id, *record};
  link::Refusal refusal;
  if (const auto* const failure = std::get_if<sa::SaFailure>(&answer.result)) {
    refusal = {failure->status, failure->text()};
  }
  return Message{id, std::move(refusal)};
}

}  // namespace

InterfaceControl::InterfaceControl(const Parts& parts)
    : parts_(parts),
      host_alarm_(parts.context, [this] { look_at_host(); }),
      redeliver_alarm_(parts.context, [this] { deliver(); }),
      patience_alarm_(parts.context,
                      [this] {
                        leaves_ = 0;
                        end_if_over();
                      }),
      netlink_watch_(parts.context, parts.netlink.descriptor(), [this] { on_host_event(); }),
      inbox_watch_(parts.context, parts.inbox.descriptor(), [this] { on_messages(); }) {
  host_alarm_.set(monotonic_now());
}

// --- News ----------------------------------------------------------------------------------------

void InterfaceControl::on_port(const verbs::PortSnapshot& port) {
  note_partition(port);
  port_undelivered_ = port_status(port, parts_.pkey);
  deliver();
}

/// Says once what its membership means, until that is another one.
void InterfaceControl::note_partition(const verbs::PortSnapshot& port) {
  const auto found = find_partition(port.pkeys, parts_.pkey);
  const PKey entry = found ? found->pkey : PKey();
  if (std::exchange(entry_, entry) == entry) return;
  if (!found) {
    parts_.log.warn(
        "waits for partition {:#06x}: the port is in {}; the subnet manager has to add the port, "
        "or another --pkey is meant",
        parts_.pkey.value(), list_of(port.pkeys));
  } else if (!entry.is_full()) {
    parts_.log.warn(
        "limited member of partition {:#06x}: reaches its full members; limited members do not "
        "reach each other",
        parts_.pkey.value());
  }
}

void InterfaceControl::on_client_reregister() {
  reregister_undelivered_ = true;
  deliver();
}

/// One that there is no room for is made good by confirming everything.
void InterfaceControl::on_notice(const wire::Notice& notice) {
  if (!parts_.to_interface.post(SubnetNotice{notice})) reregister_undelivered_ = true;
  deliver();
}

/// The first of many changes is looked at straight away, the others after a pause, as one.
void InterfaceControl::on_host_event() {
  if (!parts_.netlink.take_events() || host_alarm_.is_set()) return;
  host_alarm_.set(std::max(monotonic_now(), host_not_before_));
}

void InterfaceControl::look_at_host() {
  auto update = parts_.netlink.update();
  const auto now = monotonic_now();
  host_not_before_ = now + kHostPause;
  if (!update) {
    if (host_retry_.failed()) {
      parts_.log.warn("{}; looks again until it can", update.error().message);
    }
    host_alarm_.set(now + std::max<Duration>(kHostPause, host_retry_.pause()));
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
  if (!parts_.netlink.interface_exists()) return stop({Ending::Kind::deleted, {}});
  deliver();
}

void InterfaceControl::handle(control::InterfaceRequest request,
                              std::function<void(control::Response)> done) {
  ToInterface letter(AdminRequest{request, std::move(done)});
  if (parts_.to_interface.post(std::move(letter))) return;
  std::get<AdminRequest>(letter).done(Error(EBUSY, "the interface is too busy: try again"));
}

void InterfaceControl::find_members(const Gid& mgid, std::function<void(control::Response)> done) {
  last_members_ = link::QuestionId(last_members_.value() + 1);
  members_wanted_.emplace(last_members_, std::move(done));
  parts_.owner.ask({parts_.number, Question::Kind::members, last_members_},
                   sa::members_query(mgid));
}

// --- Questions and answers -----------------------------------------------------------------------

void InterfaceControl::on_messages() {
  parts_.inbox.drain(messages_);
  for (auto& message : messages_) {
    std::visit([this](auto& content) { take(content); }, message);
  }
  messages_.clear();
  end_if_over();
}

void InterfaceControl::take(link::JoinGroup& message) {
  parts_.owner.ask({parts_.number, Question::Kind::join, message.id},
                   sa::JoinQuery{message.record, message.components});
}

void InterfaceControl::take(link::LookUpMembership& message) {
  parts_.owner.ask({parts_.number, Question::Kind::join, message.id},
                   sa::LookupQuery{message.record, message.components});
}

void InterfaceControl::take(link::AskPath& message) {
  parts_.owner.ask({parts_.number, Question::Kind::path, message.id},
                   sa::PathQuery{message.record, message.components});
}

void InterfaceControl::take(link::LeaveGroup& message) {
  ++leaves_;
  parts_.owner.ask({parts_.number, Question::Kind::leave, {}},
                   sa::LeaveQuery{message.record, message.components});
}

void InterfaceControl::take(link::HostGroupsChanged&) {
  parts_.netlink.expect_change();
  on_host_event();
}

void InterfaceControl::take(AdminResponse& message) { message.done(std::move(message.response)); }

void InterfaceControl::on_answer(const sa::Answer& answer) {
  const auto question = Question::of(answer.id);
  switch (question.kind) {
    case Question::Kind::join:
      answers_undelivered_.push_back(
          answered<JoinAnswered, wire::McMemberRecord>(question.id, answer));
      break;
    case Question::Kind::path:
      answers_undelivered_.push_back(answered<PathAnswered, wire::PathRecord>(question.id, answer));
      break;
    case Question::Kind::leave:
      if (leaves_ > 0) --leaves_;
      return end_if_over();
    case Question::Kind::members:
      return give_members(question.id, answer);
    case Question::Kind::subscription:
      return;  // the port's affair
  }
  deliver();
}

void InterfaceControl::give_members(link::QuestionId id, const sa::Answer& answer) {
  const auto node = members_wanted_.extract(id);
  if (node.empty()) return;
  const auto& done = node.mapped();
  if (const auto* const failure = std::get_if<sa::SaFailure>(&answer.result)) {
    return done(Error(EIO, failure->text()));
  }
  std::vector<control::Member> members;
  for (const auto& record : std::get<sa::Members>(answer.result)) {
    members.push_back({record.port_gid, record.join_state});
  }
  done(control::Reply(std::move(members)));
}

/// Tells the interface's thread all that it does not know yet. What its mailbox refuses stays
/// noted, and is said again soon, as it is by then.
void InterfaceControl::deliver() {
  if (!deliver_all()) redeliver_alarm_.set(monotonic_now() + kRedeliver);
}

bool InterfaceControl::deliver_all() {
  auto& to = parts_.to_interface;
  if (port_undelivered_) {
    if (!to.post(PortChanged{*port_undelivered_})) return false;
    port_undelivered_.reset();
  }
  if (reregister_undelivered_) {
    if (!to.post(ClientReregister{})) return false;
    reregister_undelivered_ = false;
  }
  if (host_undelivered_) {
    if (!to.post(HostChanged{*host_undelivered_})) return false;
    host_undelivered_.reset();
  }
  while (!answers_undelivered_.empty()) {
    if (!to.post(std::move(answers_undelivered_.front()))) return false;
    answers_undelivered_.pop_front();
  }
  if (stop_undelivered_) {
    if (!to.post(Stop{})) return false;
    stop_undelivered_ = false;
  }
  return true;
}

// --- The end -------------------------------------------------------------------------------------

void InterfaceControl::stop(Ending why) {
  if (life_ != Life::running) return;
  life_ = Life::stopping;
  ending_ = std::move(why);
  stop_undelivered_ = true;
  deliver();
}

void InterfaceControl::take(Stopped& message) {
  life_ = Life::over;
  if (!ending_) ending_ = std::move(message.why);
  patience_alarm_.set(monotonic_now() + kLeavePatience);
}

void InterfaceControl::end_if_over() {
  if (life_ != Life::over || leaves_ > 0) return;
  life_ = Life::ended;
  parts_.owner.on_ended(parts_.number, *ending_);
}

}  // namespace ipoib::daemon
