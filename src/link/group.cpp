// One method for each stimulus of docs/states.md, "Group"; each lists every state.
#include "link/group.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<group_state::State>> kGroupStates{
    "Absent", "Joining", "Pausing", "Member", "LookingUp", "Confirming"};

}  // namespace

std::string_view name(GroupRole role) {
  switch (role) {
    case GroupRole::broadcast:
      return "broadcast";
    case GroupRole::all_nodes:
      return "all-nodes";
    case GroupRole::multicast:
      return "multicast";
    case GroupRole::routed:
      return "routed";
  }
  return {};
}

Group::Group(const GroupDependencies& deps, GroupRole role, const Gid& mgid)
    : deps_(deps), role_(role), mgid_(mgid) {
  if (role_ != GroupRole::broadcast) return;
  search_.emplace(deps_.config);
  set_scope(0);
}

void Group::start() {
  assert(is_absent());
  if (search_) set_scope(0);
  silence_.forget();
  failed_attachments_ = 0;
  become(group_state::Joining{.request = join(false)}, "started");
}

/// Joins again while remaining a member; `held` is the membership of the current state.
void Group::confirm(Membership& held, unsigned failures, std::string_view why) {
  stop_search();
  become(group_state::Confirming{std::move(held), join(false), false, failures}, why);
}

/// The SA tracks members by port, not by program, and does not count joins.
void Group::log_loss() {
  deps_.out.counters.add(Counter::memberships_lost);
  deps_.log.warn(
      "{} group {}: the port is no longer a member: another program on the port has left the "
      "group, or the subnet manager has lost it; joining again",
      name(role_), mgid_.to_string());
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

bool Group::may_be(const Gid& mgid) const {
  return search_ && membership() == nullptr ? search_->may_be(mgid) : mgid == mgid_;
}

/// A deleted group is joined, and so created, again. After a creation a failed join is retried.
void Group::on_notice(const Gid& mgid) {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [](group_state::Joining&) {},
                 [&](group_state::Pausing& s) {
                   if (search_) set_scope(search_->scope_of(mgid).value_or(scope()));
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

void Group::on_lost() { lose("lost"); }

void Group::lose(std::string_view why) {
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining&) { become(group_state::Absent{}, why); },
                 [&](group_state::Pausing&) { become(group_state::Absent{}, why); },
                 [&](group_state::Member&) { become(group_state::Absent{}, why); },
                 [&](group_state::LookingUp&) { become(group_state::Absent{}, why); },
                 [&](group_state::Confirming&) { become(group_state::Absent{}, why); },
             },
             state_);
  detach();
}

void Group::leave() {
  stop_search();
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining&) { emit_leave(); },
                 [](group_state::Pausing&) {},
                 [&](group_state::Member&) { emit_leave(); },
                 [&](group_state::LookingUp&) { emit_leave(); },
                 [&](group_state::Confirming&) { emit_leave(); },
             },
             state_);
  lose("left");
}

/// The link has gone down before. Each join may succeed, but the pauses grow.
void Group::on_setup_failed(std::string_view why, TimePoint now) {
  assert(is_absent());
  const Backoff& backoff = deps_.config.join_backoff;
  // A success is not reported, so a failure a good while after the last one counts as the first.
  const bool is_first = failed_setups_ == 0 || now - setup_failed_ > 2 * backoff.last;
  setup_failed_ = now;
  failed_setups_ = is_first ? 1 : failed_setups_ + 1;
  become(group_state::Pausing{now + backoff.after(failed_setups_, deps_.random), failed_setups_,
                              std::string(why)},
         "set-up failed");
}

/// Leaves the group: the port would not receive its datagrams.
void Group::on_attach_failed(TimePoint now) {
  const auto pause = [&] {
    attached_.reset();
    give_up(now, ++failed_attachments_, "not attached", "the HCA did not attach the queue pair");
  };
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [](group_state::Joining&) {},
                 [](group_state::Pausing&) {},
                 [&](group_state::Member&) { pause(); },
                 [&](group_state::LookingUp&) { pause(); },
                 [&](group_state::Confirming&) { pause(); },
             },
             state_);
}

/// RFC 4391, 10: the parameters of a group are those of the broadcast group. An existing group
/// keeps its parameters until all members have left it, so this member leaves; the first to join
/// after that creates it with the new ones.
void Group::on_new_parameters(TimePoint now) {
  assert(role_ != GroupRole::broadcast);
  const auto renew = [&](const Membership& held) {
    if (has_same_parameters(held.record, *deps_.parameters)) return;
    give_up(now, 1, "the broadcast group has other parameters",
            "the broadcast group has other parameters");
  };
  std::visit(Overloaded{
                 [](group_state::Absent&) {},
                 [&](group_state::Joining& s) {
                   become(group_state::Joining{join(false), false, s.failures}, "new parameters");
                 },
                 [&](group_state::Pausing& s) {
                   become(group_state::Joining{join(false), false, s.failures}, "new parameters");
                 },
                 [&](group_state::Member& s) { renew(s.membership); },
                 [&](group_state::LookingUp& s) { renew(s.membership); },
                 [&](group_state::Confirming& s) { renew(s.membership); },
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
            if (s.does_not_exist && search_) set_scope(search_->scope_of_retry(s.failures));
            become(group_state::Joining{.request = join(false), .failures = s.failures}, "retry");
          },
          [&](group_state::Member& s) {
            if (s.failures > 0) return confirm(s.membership, s.failures, "retry");
            const bool is_silent = now < s.check_at;
            become(group_state::LookingUp{std::move(s.membership), request_lookup(deps_, mgid_)},
                   is_silent ? "silence" : "membership check");
          },
          [](group_state::LookingUp&) { assert(false && "no deadline"); },
          [](group_state::Confirming&) { assert(false && "no deadline"); },
      },
      state_);
}

void Group::become(group_state::State&& next, std::string_view why) {
  deps_.log.debug("{} group: {} -> {}: {}", name(role_), kGroupStates[state_.index()],
                  kGroupStates[next.index()], why);
  const bool was_member = membership() != nullptr;
  const bool was_joining = std::holds_alternative<group_state::Joining>(state_);
  state_ = std::move(next);
  if (deps_.out.changes.wants_groups()) report(was_member, was_joining, why);
}

/// Reports a change to those who watch the link.
void Group::report(bool was_member, bool was_joining, std::string_view why) const {
  using Kind = GroupChange::Kind;
  const auto add = [&](Kind kind, std::string_view text) {
    deps_.out.changes.add(kind, info(), text);
  };
  const auto joined = [&] {
    if (!was_member) add(Kind::joined, why);
  };
  std::visit(Overloaded{
                 [&](const group_state::Absent&) { add(Kind::left, why); },
                 [&](const group_state::Joining&) {
                   if (!was_joining) add(Kind::joining, why);
                 },
                 [&](const group_state::Pausing& s) { add(Kind::failed, s.why); },
                 [&](const group_state::Member&) { joined(); },
                 [&](const group_state::LookingUp&) { joined(); },
                 [&](const group_state::Confirming&) { joined(); },
             },
             state_);
}

// --- SA requests, queue pair, output -------------------------------------------------------------

wire::SaRequestId Group::join(bool creating) {
  return request_join(deps_, mgid_, join_state(), creating && creation() ? &*creation() : nullptr);
}

void Group::emit_leave() { request_leave(deps_, mgid_, join_state()); }

/// Receivers join as full members (RFC 4391, 5 and 10), but not routers (11).
std::uint8_t Group::join_state() const {
  return role_ == GroupRole::routed ? McMemberRecord::kNonMember : McMemberRecord::kFullMember;
}

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
                        [this](const group_state::Member& s) {
                          return std::min(s.check_at, silence_.next(s.since, s.silence));
                        },
                        [](const group_state::LookingUp&) { return kNever; },
                        [](const group_state::Confirming&) { return kNever; },
                    },
                    state_);
}

bool Group::is_absent() const { return std::holds_alternative<group_state::Absent>(state_); }

bool Group::is_settled() const {
  const auto* const joining = std::get_if<group_state::Joining>(&state_);
  return !is_absent() && (joining == nullptr || joining->failures > 0);
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
  if (joined != nullptr) {
    const auto state = role_ == GroupRole::routed ? GroupState::routed : GroupState::full;
    return GroupInfo{mgid_, joined->record.mlid, state};
  }
  return GroupInfo{mgid_, Lid{}, is_absent() ? GroupState::absent : GroupState::joining};
}

std::string Group::waiting_for() const {
  const std::string join =
      "join of the " + std::string(name(role_)) + " group " + mgid_.to_string();
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
