// The responses of the SA to a group: to joins and lookups, refusals, and the search of the
// broadcast group. See group.cpp for the other stimuli.
#include <algorithm>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/should_log.hpp"
#include "link/group.hpp"

namespace ipoib::link {

using wire::McMemberRecord;
using wire::SaFailure;

bool Group::on_response(const wire::SaResponse& response, TimePoint now) {
  if (!has_requested(response.id)) return false;
  const auto* const record = std::get_if<McMemberRecord>(&response.result);
  if (record == nullptr) {
    failed(wire::failure_of(response.result), now);
    return false;
  }
  return std::holds_alternative<group_state::LookingUp>(state_) ? found(*record)
                                                                : joined(*record, now);
}

/// The lookup has found the membership. Joins again in any case, which changes nothing for a
/// member. The record cannot tell: an SA does not disclose JoinState bits to untrusted requests,
/// and after another program on the port has left as a full member the port may have lesser ones.
bool Group::found(const McMemberRecord& record) {
  auto& looking = std::get<group_state::LookingUp>(state_);
  const bool is_disclosed = record.port_gid == deps_.port.gid && record.join_state != 0;
  if (is_disclosed && (record.join_state & join_state()) == 0) log_loss();
  confirm(looking.membership, 0, "found");
  return false;
}

bool Group::joined(const McMemberRecord& record, TimePoint now) {
  const bool is_broadcast = role_ == GroupRole::broadcast;
  const auto* const confirming = std::get_if<group_state::Confirming>(&state_);
  if (confirming != nullptr && confirming->search) {
    move_to_scope(*confirming->search, now);
    return false;
  }
  if (const auto why = mismatch(deps_, record, is_broadcast); !why.empty()) {
    // A membership would keep such a group alive.
    note_failed_join(SaFailure(SaFailure::Kind::local, std::string(why)), failures() + 1);
    give_up(now, failures() + 1, "unusable", std::string(why));
    return false;
  }
  auto membership = accept(deps_, mgid_, record);
  if (!membership) {
    if (std::holds_alternative<group_state::Joining>(state_)) emit_leave();
    failed(SaFailure(SaFailure::Kind::local, membership.error().message), now);
    return false;
  }
  if (confirming != nullptr) failed_attachments_ = 0;
  auto& random = deps_.random;
  const TimePoint check_at = now + random.jittered(deps_.config.membership_check, 75, 125);
  group_state::Member member{
      .membership = std::move(*membership), .check_at = check_at, .since = now};
  if (is_broadcast) member.silence = silence_.pause(random);
  become(std::move(member), "joined");
  return true;
}

unsigned Group::failures() const {
  return std::visit(Overloaded{
                        [](const group_state::Absent&) { return 0U; },
                        [](const group_state::Joining& s) { return s.failures; },
                        [](const group_state::Pausing& s) { return s.failures; },
                        [](const group_state::Member& s) { return s.failures; },
                        [](const group_state::LookingUp&) { return 0U; },
                        [](const group_state::Confirming& s) { return s.failures; },
                    },
                    state_);
}

void Group::note_failed_join(const SaFailure& failure, unsigned failures) {
  deps_.out.counters.add(Counter::join_failures);
  if (should_log(failures)) log_failure("join", failure);
}

/// RFC 4391, 12: a failed operation on a multicast group "SHOULD be logged".
void Group::log_failure(std::string_view operation, const SaFailure& failure) {
  deps_.log.warn("{} group {}: {}: {}", name(role_), mgid_.to_string(), operation,
                 reason_of(failure));
}

std::string Group::reason_of(const SaFailure& failure) const {
  const bool may_be_missing = role_ == GroupRole::broadcast && means_no_group(failure);
  return failure.text() + (may_be_missing && !creation()
                               ? "; if it does not exist, the subnet manager creates it with "
                                 "\"ipoib\" in the partition's line (OpenSM: partitions file), or "
                                 "this host with --create-group yes"
                               : "");
}

void Group::failed(const SaFailure& failure, TimePoint now) {
  const bool create = means_no_group(failure) && creation().has_value();
  const auto stay = [&](Membership& held, unsigned failures, std::string_view why) {
    const Duration pause = deps_.config.join_backoff.after(failures + 1, deps_.random);
    become(group_state::Member{.membership = std::move(held),
                               .check_at = now + pause,
                               .since = now,
                               .failures = failures + 1},
           why);
  };
  std::visit(
      Overloaded{
          [](group_state::Absent&) { assert(false && "no request is outstanding"); },
          [&](group_state::Joining& s) {
            if (means_no_group(failure) && !s.creating && try_next_scope(s)) return;
            const unsigned failures = s.failures;
            if (create && !s.creating && (!search_ || scope() == 0)) {
              become(group_state::Joining{join(true), true, failures}, "does not exist: create it");
              return;
            }
            note_failed_join(failure, failures + 1);
            const Duration pause = deps_.config.join_backoff.after(failures + 1, deps_.random);
            become(group_state::Pausing{now + pause, failures + 1, reason_of(failure),
                                        means_no_group(failure)},
                   "refused");
          },
          [](group_state::Pausing&) { assert(false && "no request is outstanding"); },
          [](group_state::Member&) { assert(false && "no request is outstanding"); },
          [&](group_state::LookingUp& s) {
            if (!failure.status) {
              log_failure("membership check", failure);
              return stay(s.membership, 0, "lookup failed");
            }
            if (failure.status == wire::SaStatus::no_records) log_loss();
            confirm(s.membership, 0, "membership may be lost");
          },
          [&](group_state::Confirming& s) {
            if (means_no_group(failure) && !s.creating && try_next_scope(s)) return;
            if (!create || s.creating) {
              note_failed_join(failure, s.failures + 1);
              stop_search();
              return stay(s.membership, s.failures, "not confirmed: kept");
            }
            become(group_state::Confirming{std::move(s.membership), join(true), true, s.failures},
                   "no longer exists: create it");
          },
      },
      state_);
}

/// Before the broadcast group is created in the first scope, it is searched in all of them.
bool Group::try_next_scope(group_state::Joining& joining) {
  if (!search_ || !creation_ || joining.failures > 0) return false;
  set_scope(search_->next(scope()));
  if (scope() == 0) return false;
  become(group_state::Joining{.request = join(false)}, "not in that scope");
  return true;
}

/// A group that no longer exists may have been created again in another scope. The old membership
/// is used meanwhile, and stays if there is no such group. As long as the group exists, it is not
/// searched in other scopes: hosts of the link may be in it, and its members do not see another
/// one.
bool Group::try_next_scope(group_state::Confirming& confirming) {
  if (!search_) return false;
  const std::size_t next = search_->next(confirming.search.value_or(scope()));
  if (next == scope()) return false;
  const auto request = request_join(deps_, search_->mgid_in(next), join_state(), nullptr);
  become(group_state::Confirming{std::move(confirming.membership), request, false,
                                 confirming.failures, next},
         "no longer exists: search it in another scope");
  return true;
}

/// The other groups have the scope of the broadcast group, so the link has to come up again; it
/// remains a member in the new scope.
void Group::move_to_scope(std::size_t scope, TimePoint now) {
  emit_leave();  // for the other daemons on the port, which count this one
  detach();
  set_scope(scope);
  deps_.log.info("broadcast group: found in another scope, as {}", mgid_.to_string());
  become(group_state::Pausing{now, 1, "the broadcast group has another scope"}, "another scope");
}

/// Ends the search. The join in the other scope may still succeed.
void Group::stop_search() {
  const auto* const confirming = std::get_if<group_state::Confirming>(&state_);
  if (confirming == nullptr || !confirming->search) return;
  request_leave(deps_, search_->mgid_in(*confirming->search), join_state());
}

void Group::set_scope(std::size_t scope) { mgid_ = search_->mgid_in(scope); }

std::size_t Group::scope() const { return *search_->scope_of(mgid_); }

/// The parameters to create the group with. A group must have a FullMember, so one that is only
/// routed is not created.
const std::optional<McMemberRecord>& Group::creation() const {
  const bool is_own = role_ == GroupRole::broadcast || role_ == GroupRole::routed;
  return is_own ? creation_ : deps_.parameters;
}

/// Leaves, and joins again after a back-off.
void Group::give_up(TimePoint now, unsigned failures, std::string_view what, std::string why) {
  stop_search();
  emit_leave();
  detach();
  const Duration pause = deps_.config.join_backoff.after(failures, deps_.random);
  become(group_state::Pausing{now + pause, failures, std::move(why)}, what);
}

}  // namespace ipoib::link
