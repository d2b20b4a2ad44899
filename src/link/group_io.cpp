// What a group says to the SA and to the queue pair, and what it shows of itself.
#include <utility>

#include "ipoib/overloaded.hpp"
#include "link/group.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

using namespace group_state;
using wire::McMemberRecord;

/// RFC 4391, 5: as a full member. To create it, all that its traffic must agree on (RFC 4391, 10:
/// "the same P_Key, Q_Key, SL, MTU, and HopLimit" as the broadcast group).
QuestionId Group::ask(bool creating) {
  return ask_to_join(env_, mgid_, McMemberRecord::kFullMember,
                     creating && creation_ ? &*creation_ : nullptr);
}

void Group::emit_leave() { ask_to_leave(env_, mgid_, McMemberRecord::kFullMember); }

void Group::attach() {
  const Membership* const now = membership();
  if (now == nullptr || attached_ == now->record.mlid) return;
  const auto before = std::exchange(attached_, now->record.mlid);
  env_.out.events.emplace_back(AttachGroup{mgid_, now->record.mlid});
  if (before) env_.out.events.emplace_back(DetachGroup{mgid_, *before});
}

void Group::detach() {
  if (attached_) env_.out.events.emplace_back(DetachGroup{mgid_, *attached_});
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
                        [](const Absent&) { return kNever; },
                        [](const Joining&) { return kNever; },
                        [](const Pausing& s) { return s.until; },
                        [](const Member& s) { return s.confirm_at; },
                        [](const Looking&) { return kNever; },
                        [](const Confirming&) { return kNever; },
                    },
                    state_);
}

const Membership* Group::membership() const {
  return std::visit(Overloaded{
                        [](const Absent&) -> const Membership* { return nullptr; },
                        [](const Joining&) -> const Membership* { return nullptr; },
                        [](const Pausing&) -> const Membership* { return nullptr; },
                        [](const Member& s) { return &s.membership; },
                        [](const Looking& s) { return &s.membership; },
                        [](const Confirming& s) { return &s.membership; },
                    },
                    state_);
}

const McMemberRecord* Group::record() const {
  const Membership* const member = membership();
  return member != nullptr ? &member->record : nullptr;
}

bool Group::asks(QuestionId id) const {
  return std::visit(Overloaded{
                        [](const Absent&) { return false; },
                        [id](const Joining& s) { return s.question == id; },
                        [](const Pausing&) { return false; },
                        [](const Member&) { return false; },
                        [id](const Looking& s) { return s.question == id; },
                        [id](const Confirming& s) { return s.question == id; },
                    },
                    state_);
}

GroupInfo Group::info() const {
  const Membership* const joined = membership();
  if (joined != nullptr) return GroupInfo{mgid_, joined->record.mlid, GroupState::full};
  const bool absent = std::holds_alternative<Absent>(state_);
  return GroupInfo{mgid_, Lid{}, absent ? GroupState::absent : GroupState::joining};
}

std::string Group::waiting_for() const {
  const std::string join = "join of the " + std::string(name_) + " group " + mgid_.to_string();
  return std::visit(Overloaded{
                        [&](const Absent&) { return "the start of the " + join; },
                        [&](const Joining& s) {
                          return "the subnet administrator's answer to the " +
                                 std::string(s.creating ? "creating " : "") + join;
                        },
                        [&](const Pausing& s) {
                          return "another try of the " + join + "; the last one: " + s.why;
                        },
                        [](const Member&) { return std::string{}; },
                        [](const Looking&) { return std::string{}; },
                        [](const Confirming&) { return std::string{}; },
                    },
                    state_);
}

}  // namespace ipoib::link
