// One method for each stimulus of docs/states.md, "Group", with every state spelled out.
#include "link/group.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/refusal.hpp"

namespace ipoib::link {
namespace {

using namespace group_state;
using wire::McMemberRecord;

constexpr std::array<std::string_view, std::variant_size_v<State>> kNames{
    "Absent", "Joining", "Pausing", "Member", "Looking", "Confirming"};

}  // namespace

void Group::start() {
  assert(std::holds_alternative<Absent>(state_));
  become(Joining{.question = ask(false)}, "started");
}

bool Group::on_answer(QuestionId id, const JoinAnswer& answer, TimePoint now) {
  if (!asks(id)) return false;
  return std::visit(Overloaded{
                        [&](const McMemberRecord& record) {
                          if (!is_lost_by(record)) return joined(record, now);
                          refused(Refusal{.status = wire::SaStatus::no_records}, now);
                          return false;
                        },
                        [&](const Refusal& refusal) {
                          refused(refusal, now);
                          return false;
                        },
                    },
                    answer);
}

/// What is left of a membership when another program on the port has left as a full member is a
/// record of a lesser one. An administrator that does not say who the members are shows no port.
bool Group::is_lost_by(const McMemberRecord& record) const {
  return std::holds_alternative<Looking>(state_) && record.port_gid == env_.port.gid &&
         (record.join_state & McMemberRecord::kFullMember) == 0;
}

bool Group::joined(const McMemberRecord& record, TimePoint now) {
  auto membership = accept(env_, mgid_, record);
  if (!membership) {
    refused(Refusal{.status = {}, .why = "its record cannot be used"}, now);
    return false;
  }
  const TimePoint confirm_at = now + env_.random.jittered(env_.config.membership_check, 75, 125);
  become(Member{.membership = std::move(*membership), .confirm_at = confirm_at}, "joined");
  return true;
}

void Group::refused(const Refusal& refusal, TimePoint now) {
  const bool create = means_no_group(refusal) && creation_.has_value();
  const auto note = [&](unsigned refusals) {
    env_.out.counters.add(Counter::join_refusals);
    if (!should_log(refusals)) return;
    // RFC 4391, 12: a failed operation on a multicast group "SHOULD be logged".
    env_.log.warn("{} group {}: join: {}", name_, mgid_.to_string(), describe(refusal));
  };
  const auto stay = [&](Membership& held, unsigned refusals, std::string_view why) {
    note(refusals + 1);
    const Duration pause = env_.config.join_backoff.after(refusals + 1, env_.random);
    become(Member{std::move(held), now + pause, refusals + 1}, why);
  };
  std::visit(Overloaded{
                 [](Absent&) { assert(false && "no question is outstanding"); },
                 [&](Joining& s) {
                   const unsigned refusals = s.refusals;
                   if (create && !s.creating) {
                     become(Joining{ask(true), true, refusals}, "there is none: create it");
                     return;
                   }
                   note(refusals + 1);
                   const Duration pause = env_.config.join_backoff.after(refusals + 1, env_.random);
                   become(Pausing{now + pause, refusals + 1, describe(refusal)}, "refused");
                 },
                 [](Pausing&) { assert(false && "no question is outstanding"); },
                 [](Member&) { assert(false && "no question is outstanding"); },
                 [&](Looking& s) {
                   if (!refusal.status) return stay(s.membership, 0, "not looked up");
                   if (refusal.status == wire::SaStatus::no_records) note_loss();
                   confirm(s.membership, 0, "it may be lost");
                 },
                 [&](Confirming& s) {
                   if (!create || s.creating) {
                     return stay(s.membership, s.refusals, "not confirmed: used as it was");
                   }
                   become(Confirming{std::move(s.membership), ask(true), true, s.refusals},
                          "it is gone: create it");
                 },
             },
             state_);
}

/// Joins again, as what it is already; `held` is that of the state.
void Group::confirm(Membership& held, unsigned refusals, std::string_view why) {
  become(Confirming{std::move(held), ask(false), false, refusals}, why);
}

/// Ports are members, programs are not: the administrator does not count who of them has joined.
void Group::note_loss() {
  env_.out.counters.add(Counter::memberships_lost);
  env_.log.warn(
      "{} group {}: the port is no longer in it, for another program on the port has left it, or "
      "the subnet manager has forgotten: joining again",
      name_, mgid_.to_string());
}

void Group::on_reregister() {
  std::visit(Overloaded{
                 [](Absent&) {},
                 [&](Joining& s) {
                   become(Joining{ask(false), false, s.refusals}, "register again");
                 },
                 [&](Pausing&) { become(Joining{.question = ask(false)}, "register again"); },
                 [&](Member& s) { confirm(s.membership, 0, "register again"); },
                 [&](Looking& s) { confirm(s.membership, 0, "register again"); },
                 [&](Confirming& s) { confirm(s.membership, 0, "register again"); },
             },
             state_);
}

/// One that was deleted is to be joined, and made, again; one that was made is worth another try.
void Group::on_notice() {
  std::visit(Overloaded{
                 [](Absent&) {},
                 [](Joining&) {},
                 [&](Pausing& s) {
                   become(
                       Joining{.question = ask(false), .creating = false, .refusals = s.refusals},
                       "there is news of it");
                 },
                 [&](Member& s) { confirm(s.membership, 0, "there is news of it"); },
                 [&](Looking& s) { confirm(s.membership, 0, "there is news of it"); },
                 [](Confirming&) {},
             },
             state_);
}

void Group::on_lost() {
  std::visit(Overloaded{
                 [](Absent&) {},
                 [&](Joining&) { become(Absent{}, "lost"); },
                 [&](Pausing&) { become(Absent{}, "lost"); },
                 [&](Member&) { become(Absent{}, "lost"); },
                 [&](Looking&) { become(Absent{}, "lost"); },
                 [&](Confirming&) { become(Absent{}, "lost"); },
             },
             state_);
  detach();
  failed_attachments_ = 0;
}

void Group::leave() {
  std::visit(Overloaded{
                 [](Absent&) {},
                 [&](Joining&) { emit_leave(); },
                 [](Pausing&) {},
                 [&](Member&) { emit_leave(); },
                 [&](Looking&) { emit_leave(); },
                 [&](Confirming&) { emit_leave(); },
             },
             state_);
  on_lost();
}

void Group::on_setup_failed(TimePoint now) {
  on_lost();
  const Duration pause = env_.config.join_backoff.after(1, env_.random);
  become(Pausing{now + pause, 1, "queue pair or group could not be set up"}, "set-up failed");
}

/// Nothing is of use to a member that cannot hear, and the fabric is spared what it would send.
void Group::on_attach_failed(TimePoint now) {
  const auto give_up = [&](auto&) {
    emit_leave();
    attached_.reset();
    const unsigned failed = ++failed_attachments_;
    const Duration pause = env_.config.join_backoff.after(failed, env_.random);
    become(Pausing{now + pause, failed, "the HCA did not attach it"}, "not attached");
  };
  std::visit(Overloaded{
                 [](Absent&) {},
                 [](Joining&) {},
                 [](Pausing&) {},
                 [&](Member& s) { give_up(s); },
                 [&](Looking& s) { give_up(s); },
                 [&](Confirming& s) { give_up(s); },
             },
             state_);
}

void Group::tick(TimePoint now) {
  if (next_deadline() > now) return;
  std::visit(Overloaded{
                 [](Absent&) { assert(false && "no deadline"); },
                 [](Joining&) { assert(false && "no deadline"); },
                 [&](Pausing& s) {
                   become(Joining{.question = ask(false), .refusals = s.refusals}, "tries again");
                 },
                 [&](Member& s) {
                   if (s.refusals > 0) return confirm(s.membership, s.refusals, "tries again");
                   become(Looking{std::move(s.membership), look_up(env_, mgid_)}, "still in it?");
                 },
                 [](Looking&) { assert(false && "no deadline"); },
                 [](Confirming&) { assert(false && "no deadline"); },
             },
             state_);
}

void Group::become(State&& next, std::string_view why) {
  env_.log.debug("{} group: {} -> {}: {}", name_, kNames[state_.index()], kNames[next.index()],
                 why);
  state_ = std::move(next);
}

}  // namespace ipoib::link
