// One method for each stimulus of docs/states.md, "Group"; each lists every state.
#include "link/group.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/should_log.hpp"

namespace ipoib::link {

using wire::McMemberRecord;
using wire::SaFailure;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<group_state::State>> kGroupStates{
    "Absent", "Joining", "Pausing", "Member", "LookingUp", "Confirming"};

}  // namespace

void Group::start() {
  assert(std::holds_alternative<group_state::Absent>(state_));
  become(group_state::Joining{.request = join(false)}, "started");
}

bool Group::on_response(const wire::SaResponse& response, TimePoint now) {
  if (!has_requested(response.id)) return false;
  const auto* const record = std::get_if<McMemberRecord>(&response.result);
  if (record == nullptr) {
    failed(wire::failure_of(response.result), now);
  } else if (shows_loss(*record)) {
    failed(SaFailure(wire::SaStatus::no_records), now);
  } else {
    return joined(*record, now);
  }
  return false;
}

/// After another program on the port has left as a full member, the record has lesser JoinState
/// bits. An SA that does not disclose members returns a record without PortGID.
bool Group::shows_loss(const McMemberRecord& record) const {
  return std::holds_alternative<group_state::LookingUp>(state_) &&
         record.port_gid == deps_.port.gid &&
         (record.join_state & McMemberRecord::kFullMember) == 0;
}

bool Group::joined(const McMemberRecord& record, TimePoint now) {
  auto membership = accept(deps_, mgid_, record);
  if (!membership) {
    failed(SaFailure(SaFailure::Kind::local, "its record cannot be used"), now);
    return false;
  }
  const TimePoint confirm_at = now + deps_.random.jittered(deps_.config.membership_check, 75, 125);
  become(group_state::Member{.membership = std::move(*membership), .confirm_at = confirm_at},
         "joined");
  return true;
}

void Group::failed(const SaFailure& failure, TimePoint now) {
  const bool create = means_no_group(failure) && creation_.has_value();
  const auto note = [&](unsigned failures) {
    deps_.out.counters.add(Counter::join_refusals);
    if (!should_log(failures)) return;
    // RFC 4391, 12: a failed operation on a multicast group "SHOULD be logged".
    deps_.log.warn("{} group {}: join: {}", name_, mgid_.to_string(), failure.text());
  };
  const auto stay = [&](Membership& held, unsigned failures, std::string_view why) {
    note(failures + 1);
    const Duration pause = deps_.config.join_backoff.after(failures + 1, deps_.random);
    become(group_state::Member{std::move(held), now + pause, failures + 1}, why);
  };
  std::visit(
      Overloaded{
          [](group_state::Absent&) { assert(false && "no request is outstanding"); },
          [&](group_state::Joining& s) {
            const unsigned failures = s.failures;
            if (create && !s.creating) {
              become(group_state::Joining{join(true), true, failures}, "does not exist: create it");
              return;
            }
            note(failures + 1);
            const Duration pause = deps_.config.join_backoff.after(failures + 1, deps_.random);
            become(group_state::Pausing{now + pause, failures + 1, failure.text()}, "refused");
          },
          [](group_state::Pausing&) { assert(false && "no request is outstanding"); },
          [](group_state::Member&) { assert(false && "no request is outstanding"); },
          [&](group_state::LookingUp& s) {
            if (!failure.status) return stay(s.membership, 0, "lookup failed");
            if (failure.status == wire::SaStatus::no_records) log_loss();
            confirm(s.membership, 0, "membership may be lost");
          },
          [&](group_state::Confirming& s) {
            if (!create || s.creating) {
              return stay(s.membership, s.failures, "not confirmed: kept");
            }
            become(group_state::Confirming{std::move(s.membership), join(true), true, s.failures},
                   "no longer exists: create it");
          },
      },
      state_);
}

/// Joins again while remaining a member; `held` is the membership of the current state.
void Group::confirm(Membership& held, unsigned failures, std::string_view why) {
  become(group_state::Confirming{std::move(held), join(false), false, failures}, why);
}

/// The SA tracks members by port, not by program, and does not count joins.
void Group::log_loss() {
  deps_.out.counters.add(Counter::memberships_lost);
  deps_.log.warn(
      "{} group {}: the port is no longer a member: another program on the port has left the "
      "group, or the subnet manager has lost it; joining again",
      name_, mgid_.to_string());
}

void Group::on_reregister() {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining& s) {
                   become(group_state::Joining{join(false), false, s.failures}, "register again");
                 },
                 [&](group_state::Pausing&) {
                   become(group_state::Joining{.request = join(false)}, "register again");
                 },
                 [&](group_state::Member& s) { confirm(s.membership, 0, "register again"); },
                 [&](group_state::LookingUp& s) { confirm(s.membership, 0, "register again"); },
                 [&](group_state::Confirming& s) { confirm(s.membership, 0, "register again"); },
             },
             state_);
}

/// A deleted group is joined, and so created, again. After a creation a failed join is retried.
void Group::on_notice() {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [](group_state::Joining&) {},
                 [&](group_state::Pausing& s) {
                   become(
                       group_state::Joining{
                           .request = join(false), .creating = false, .failures = s.failures},
                       "reported by the SA");
                 },
                 [&](group_state::Member& s) { confirm(s.membership, 0, "reported by the SA"); },
                 [&](group_state::LookingUp& s) { confirm(s.membership, 0, "reported by the SA"); },
                 [](group_state::Confirming&) {},
             },
             state_);
}

void Group::on_lost() {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining&) { become(group_state::Absent{}, "lost"); },
                 [&](group_state::Pausing&) { become(group_state::Absent{}, "lost"); },
                 [&](group_state::Member&) { become(group_state::Absent{}, "lost"); },
                 [&](group_state::LookingUp&) { become(group_state::Absent{}, "lost"); },
                 [&](group_state::Confirming&) { become(group_state::Absent{}, "lost"); },
             },
             state_);
  detach();
  failed_attachments_ = 0;
}

void Group::leave() {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining&) { emit_leave(); },
                 [](group_state::Pausing&) {},
                 [&](group_state::Member&) { emit_leave(); },
                 [&](group_state::LookingUp&) { emit_leave(); },
                 [&](group_state::Confirming&) { emit_leave(); },
             },
             state_);
  on_lost();
}

void Group::on_setup_failed(TimePoint now) {
  on_lost();
  const Backoff& backoff = deps_.config.join_backoff;
  // Nothing tells of a success, so a failure a good while after the last one counts as the first.
  const bool is_first = failed_setups_ == 0 || now - setup_failed_ > 2 * backoff.last;
  setup_failed_ = now;
  failed_setups_ = is_first ? 1 : failed_setups_ + 1;
  become(group_state::Pausing{now + backoff.after(failed_setups_, deps_.random), failed_setups_,
                              "the queue pair could not be configured"},
         "set-up failed");
}

/// Leaves the group: the port would not receive its datagrams.
void Group::on_attach_failed(TimePoint now) {
  const auto give_up = [&] {
    emit_leave();
    attached_.reset();
    const unsigned failed = ++failed_attachments_;
    const Duration pause = deps_.config.join_backoff.after(failed, deps_.random);
    become(group_state::Pausing{now + pause, failed, "the HCA did not attach the queue pair"},
           "not attached");
  };
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [](group_state::Joining&) {},
                 [](group_state::Pausing&) {},
                 [&](group_state::Member&) { give_up(); },
                 [&](group_state::LookingUp&) { give_up(); },
                 [&](group_state::Confirming&) { give_up(); },
             },
             state_);
}

void Group::tick(TimePoint now) {
  if (next_deadline() > now) return;
  std::visit(
      Overloaded{
          [](group_state::Absent&) { assert(false && "no deadline"); },
          [](group_state::Joining&) { assert(false && "no deadline"); },
          [&](group_state::Pausing& s) {
            become(group_state::Joining{.request = join(false), .failures = s.failures}, "retry");
          },
          [&](group_state::Member& s) {
            if (s.failures > 0) return confirm(s.membership, s.failures, "retry");
            become(group_state::LookingUp{std::move(s.membership), request_lookup(deps_, mgid_)},
                   "membership check");
          },
          [](group_state::LookingUp&) { assert(false && "no deadline"); },
          [](group_state::Confirming&) { assert(false && "no deadline"); },
      },
      state_);
}

void Group::become(group_state::State&& next, std::string_view why) {
  deps_.log.debug("{} group: {} -> {}: {}", name_, kGroupStates[state_.index()],
                  kGroupStates[next.index()], why);
  state_ = std::move(next);
}

// --- SA requests, queue pair, output -------------------------------------------------------------

/// RFC 4391, 5: as a full member. A created group must have "the same P_Key, Q_Key, SL, MTU, and
/// HopLimit" as the broadcast group (RFC 4391, 10).
wire::SaRequestId Group::join(bool creating) {
  return request_join(deps_, mgid_, McMemberRecord::kFullMember,
                      creating && creation_ ? &*creation_ : nullptr);
}

void Group::emit_leave() { request_leave(deps_, mgid_, McMemberRecord::kFullMember); }

void Group::attach() {
  const Membership* const now = membership();
  if (now == nullptr || attached_ == now->record.mlid) return;
  const auto before = std::exchange(attached_, now->record.mlid);
  deps_.out.events.emplace_back(AttachGroup{mgid_, now->record.mlid});
  if (before) deps_.out.events.emplace_back(DetachGroup{mgid_, *before});
}

void Group::detach() {
  if (attached_) deps_.out.events.emplace_back(DetachGroup{mgid_, *attached_});
  attached_.reset();
}

void Group::send(Frame&& frame, Output& out) const {
  Frame taken = std::move(frame);
  if (const Membership* const member = membership()) {
    out.sends.push_back(Outgoing{member->handle, kMulticastQpn, std::move(taken)});
  } else {
    out.counters.add(Counter::drop_multicast_not_joined);
  }
}

TimePoint Group::next_deadline() const {
  return std::visit(Overloaded{
                        [](const group_state::Absent&) { return kNever; },
                        [](const group_state::Joining&) { return kNever; },
                        [](const group_state::Pausing& s) { return s.until; },
                        [](const group_state::Member& s) { return s.confirm_at; },
                        [](const group_state::LookingUp&) { return kNever; },
                        [](const group_state::Confirming&) { return kNever; },
                    },
                    state_);
}

const Membership* Group::membership() const {
  return std::visit(Overloaded{
                        [](const group_state::Absent&) -> const Membership* { return nullptr; },
                        [](const group_state::Joining&) -> const Membership* { return nullptr; },
                        [](const group_state::Pausing&) -> const Membership* { return nullptr; },
                        [](const group_state::Member& s) { return &s.membership; },
                        [](const group_state::LookingUp& s) { return &s.membership; },
                        [](const group_state::Confirming& s) { return &s.membership; },
                    },
                    state_);
}

const McMemberRecord* Group::record() const {
  const Membership* const member = membership();
  return member != nullptr ? &member->record : nullptr;
}

bool Group::has_requested(wire::SaRequestId id) const {
  return std::visit(Overloaded{
                        [](const group_state::Absent&) { return false; },
                        [id](const group_state::Joining& s) { return s.request == id; },
                        [](const group_state::Pausing&) { return false; },
                        [](const group_state::Member&) { return false; },
                        [id](const group_state::LookingUp& s) { return s.request == id; },
                        [id](const group_state::Confirming& s) { return s.request == id; },
                    },
                    state_);
}

GroupInfo Group::info() const {
  const Membership* const joined = membership();
  if (joined != nullptr) return GroupInfo{mgid_, joined->record.mlid, GroupState::full};
  const bool absent = std::holds_alternative<group_state::Absent>(state_);
  return GroupInfo{mgid_, Lid{}, absent ? GroupState::absent : GroupState::joining};
}

std::string Group::waiting_for() const {
  const std::string join = "join of the " + std::string(name_) + " group " + mgid_.to_string();
  return std::visit(Overloaded{
                        [&](const group_state::Absent&) { return "the start of the " + join; },
                        [&](const group_state::Joining& s) {
                          return "the subnet administrator's response to the " +
                                 std::string(s.creating ? "creating " : "") + join;
                        },
                        [&](const group_state::Pausing& s) {
                          return "a retry of the " + join + "; the last attempt: " + s.why;
                        },
                        [](const group_state::Member&) { return std::string{}; },
                        [](const group_state::LookingUp&) { return std::string{}; },
                        [](const group_state::Confirming&) { return std::string{}; },
                    },
                    state_);
}

}  // namespace ipoib::link
