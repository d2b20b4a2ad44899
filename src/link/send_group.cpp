#include "link/send_group.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<send_group_state::State>>
    kSendGroupStates{"Waiting", "Joining", "Ready", "Confirming", "Missing"};

bool is_missing(const wire::SaFailure& failure) {
  return failure.status &&
         wire::means_no_group(*failure.status, McMemberRecord::kSendOnlyNonMember);
}

/// Whether it has no record because the group does not exist.
bool is_missing(const wire::SaResult& result) {
  return !std::holds_alternative<McMemberRecord>(result) && is_missing(wire::failure_of(result));
}

}  // namespace

Frame SendGroup::on_packet(Frame&& frame, TimePoint now) {
  const auto park = [&](ParkedFrames& parked) {
    parked.park(std::move(frame), Purpose::packet, deps_.out.counters);
    return Frame();
  };
  const auto send = [&](const Membership& membership) {
    used_ = now;
    deps_.out.sends.push_back(Outgoing{membership.handle, kMulticastQpn, std::move(frame)});
    return Frame();
  };
  return std::visit(Overloaded{
                        [&](send_group_state::Waiting& s) { return park(s.parked); },
                        [&](send_group_state::Joining& s) { return park(s.parked); },
                        [&](send_group_state::Ready& s) { return send(s.membership); },
                        [&](send_group_state::Confirming& s) { return send(s.membership); },
                        [&](send_group_state::Missing&) { return std::move(frame); },
                    },
                    state_);
}

void SendGroup::on_turn() {
  std::visit(Overloaded{
                 [&](send_group_state::Waiting& s) {
                   become(send_group_state::Joining{join(), std::move(s.parked)},
                          "fewer requests are outstanding");
                 },
                 [](send_group_state::Joining&) { assert(false && "not waiting"); },
                 [](send_group_state::Ready&) { assert(false && "not waiting"); },
                 [](send_group_state::Confirming&) { assert(false && "not waiting"); },
                 [](send_group_state::Missing&) { assert(false && "not waiting"); },
             },
             state_);
}

/// Logs a failed operation, as it "SHOULD be" (RFC 4391, 12). That a group does not exist is no
/// failure.
void SendGroup::log_failure(const wire::SaFailure& failure) {
  const bool is_loud = !is_missing(failure) && failures_.add();
  deps_.log.log(is_loud ? spdlog::level::warn : spdlog::level::debug,
                "group {}: send-only join: {}", mgid_.to_string(), failure.text());
}

/// Leaves a group that cannot be used: the membership would keep the group's LID in use.
std::optional<Membership> SendGroup::accept_or_leave(const wire::SaResult& result) {
  const auto unusable = [this](std::string why) {
    log_failure(wire::SaFailure(wire::SaFailure::Kind::local, std::move(why)));
    leave();
    return std::nullopt;
  };
  const auto* const record = std::get_if<McMemberRecord>(&result);
  if (record == nullptr) {
    log_failure(wire::failure_of(result));
    return std::nullopt;
  }
  if (const auto why = mismatch(deps_, *record, false); !why.empty()) {
    return unusable(std::string(why));
  }
  auto membership = accept(deps_, mgid_, *record);
  if (!membership) return unusable(membership.error().message);
  failures_.reset();
  return std::move(*membership);
}

std::vector<Frame> SendGroup::on_response(const wire::SaResult& result, TimePoint now) {
  std::vector<Frame> parked;
  auto membership = accept_or_leave(result);
  const auto missing = [&] {
    deps_.out.counters.add(is_missing(result) ? Counter::groups_missing : Counter::join_failures);
    const Duration pause = deps_.random.jittered(deps_.config.missing_group, 75, 125);
    become(send_group_state::Missing{now + pause}, "refused");
  };
  const auto ready = [&](Membership&& held, std::string_view why) {
    checked_ = now;
    become(send_group_state::Ready{std::move(held), next_check(now)}, why);
  };
  std::visit(Overloaded{
                 [](send_group_state::Waiting&) { assert(false && "no request is outstanding"); },
                 [&](send_group_state::Joining& s) {
                   parked = s.parked.take();
                   if (!membership) return missing();
                   used_ = now;
                   for (Frame& frame : parked) {
                     deps_.out.sends.push_back(
                         Outgoing{membership->handle, kMulticastQpn, std::move(frame)});
                   }
                   parked.clear();
                   ready(std::move(*membership), "joined");
                 },
                 [](send_group_state::Ready&) { assert(false && "no request is outstanding"); },
                 [&](send_group_state::Confirming& s) {
                   if (membership) return ready(std::move(*membership), "confirmed");
                   if (std::holds_alternative<McMemberRecord>(result)) return missing();
                   // After any other failure, such as a busy SA, the group stays in use.
                   if (!is_missing(wire::failure_of(result))) {
                     return ready(std::move(s.membership), "not confirmed: kept");
                   }
                   leave();  // for the other programs on the port, which count this one
                   missing();
                 },
                 [](send_group_state::Missing&) { assert(false && "no request is outstanding"); },
             },
             state_);
  return parked;
}

/// Joins a group in use again, which changes nothing for a member: another program on the port may
/// have left it, and the group may have another LID.
Disposition SendGroup::on_deadline(bool may_request, TimePoint now) {
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Joining&) { return Disposition::keep; },
                        [&](send_group_state::Ready& s) {
                          if (used_ + deps_.config.send_only_idle <= now) {
                            leave();
                            return Disposition::erase;
                          }
                          if (s.check_at > now) return Disposition::keep;
                          if (may_request && used_ > checked_) {
                            become(send_group_state::Confirming{std::move(s.membership), join()},
                                   "membership check");
                          } else {
                            s.check_at = next_check(now);
                          }
                          return Disposition::keep;
                        },
                        [](send_group_state::Confirming&) { return Disposition::keep; },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

/// The membership may be outdated. An outstanding join stays, since its response is newer than the
/// event. A confirmation may be older, and it may still succeed.
Disposition SendGroup::on_outdated() {
  const auto give_up = [this] {
    leave();
    return Disposition::erase;
  };
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Joining&) { return Disposition::keep; },
                        [](send_group_state::Ready&) { return Disposition::erase; },
                        [&](send_group_state::Confirming&) { return give_up(); },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

Disposition SendGroup::on_new_parameters() {
  const auto renew = [&](const Membership& held) {
    if (has_same_parameters(held.record, *deps_.parameters)) return Disposition::keep;
    leave();
    return Disposition::erase;
  };
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Joining&) { return Disposition::keep; },
                        [&](send_group_state::Ready& s) { return renew(s.membership); },
                        [&](send_group_state::Confirming& s) { return renew(s.membership); },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

void SendGroup::on_removed(Counter why, bool leave) {
  const auto give_up = [&] {
    if (leave) this->leave();
  };
  std::visit(Overloaded{
                 [&](send_group_state::Waiting& s) { s.parked.drop(why, deps_.out.counters); },
                 [&](send_group_state::Joining& s) {
                   s.parked.drop(why, deps_.out.counters);
                   give_up();
                 },
                 [&](send_group_state::Ready&) { give_up(); },
                 [&](send_group_state::Confirming&) { give_up(); },
                 [](send_group_state::Missing&) {},
             },
             state_);
}

wire::SaRequestId SendGroup::join() {
  return request_join(deps_, mgid_, McMemberRecord::kSendOnlyNonMember, nullptr);
}

void SendGroup::leave() { request_leave(deps_, mgid_, McMemberRecord::kSendOnlyNonMember); }

TimePoint SendGroup::next_check(TimePoint now) {
  return now + deps_.random.jittered(deps_.config.membership_check, 75, 125);
}

bool SendGroup::is_outstanding() const {
  return std::holds_alternative<send_group_state::Joining>(state_) ||
         std::holds_alternative<send_group_state::Confirming>(state_);
}

bool SendGroup::has_requested(wire::SaRequestId id) const {
  return std::visit(Overloaded{
                        [](const send_group_state::Waiting&) { return false; },
                        [id](const send_group_state::Joining& s) { return s.request == id; },
                        [](const send_group_state::Ready&) { return false; },
                        [id](const send_group_state::Confirming& s) { return s.request == id; },
                        [](const send_group_state::Missing&) { return false; },
                    },
                    state_);
}

TimePoint SendGroup::next_deadline() const {
  return std::visit(Overloaded{
                        [](const send_group_state::Waiting&) { return kNever; },
                        [](const send_group_state::Joining&) { return kNever; },
                        [this](const send_group_state::Ready& s) {
                          return std::min(s.check_at, used_ + deps_.config.send_only_idle);
                        },
                        [](const send_group_state::Confirming&) { return kNever; },
                        [](const send_group_state::Missing& s) { return s.until; },
                    },
                    state_);
}

GroupInfo SendGroup::info() const {
  const auto joining = [this](const ParkedFrames& parked) {
    return GroupInfo{mgid_, Lid{}, GroupState::joining, static_cast<std::uint32_t>(parked.size()),
                     address_};
  };
  const auto joined = [this](const Membership& membership) {
    return GroupInfo{mgid_, membership.record.mlid, GroupState::send_only, 0, address_};
  };
  return std::visit(Overloaded{
                        [&](const send_group_state::Waiting& s) { return joining(s.parked); },
                        [&](const send_group_state::Joining& s) { return joining(s.parked); },
                        [&](const send_group_state::Ready& s) { return joined(s.membership); },
                        [&](const send_group_state::Confirming& s) { return joined(s.membership); },
                        [this](const send_group_state::Missing&) {
                          return GroupInfo{mgid_, Lid{}, GroupState::missing, 0, address_};
                        },
                    },
                    state_);
}

void SendGroup::become(send_group_state::State&& next, std::string_view why) {
  deps_.log.debug("send-only group {}: {} -> {}: {}", mgid_.to_string(),
                  kSendGroupStates[state_.index()], kSendGroupStates[next.index()], why);
  const bool was_member = is_member();
  state_ = std::move(next);
  if (deps_.out.changes.wants_groups()) report(was_member, why);
}

bool SendGroup::is_member() const {
  return std::holds_alternative<send_group_state::Ready>(state_) ||
         std::holds_alternative<send_group_state::Confirming>(state_);
}

/// Reports a change to those who watch the link.
void SendGroup::report(bool was_member, std::string_view why) const {
  using Kind = GroupChange::Kind;
  const auto add = [&](Kind kind) { deps_.out.changes.add(kind, info(), why); };
  const auto joined = [&] {
    if (!was_member) add(Kind::joined);
  };
  std::visit(Overloaded{
                 [](const send_group_state::Waiting&) { assert(false && "only a new one waits"); },
                 [&](const send_group_state::Joining&) { add(Kind::joining); },
                 [&](const send_group_state::Ready&) { joined(); },
                 [&](const send_group_state::Confirming&) { joined(); },
                 [&](const send_group_state::Missing&) { add(Kind::failed); },
             },
             state_);
}

void SendGroup::on_erased() const {
  const bool is_joining = std::holds_alternative<send_group_state::Joining>(state_);
  if (!deps_.out.changes.wants_groups() || !(is_member() || is_joining)) return;
  GroupInfo group = info();
  group.state = GroupState::absent;
  deps_.out.changes.add(GroupChange::Kind::left, group, "left");
}

}  // namespace ipoib::link
