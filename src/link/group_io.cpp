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
  JoinGroup question{.id = env_.ids.next(), .record = {}, .components = 0};
  if (creating) question.record = creation_.value_or(McMemberRecord{});
  question.record.mgid = mgid_;
  question.record.port_gid = env_.port;
  question.record.mlid = Lid{};
  question.record.pkey = env_.config.pkey.as_full();
  question.record.join_state = McMemberRecord::kFullMember;
  question.record.scope = env_.config.scope;
  question.record.proxy_join = false;
  question.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                        McMemberRecord::kJoinState;
  if (creating) {
    question.record.mtu_selector = wire::Selector::exactly;
    question.record.rate_selector = wire::Selector::exactly;
    question.components |=
        McMemberRecord::kQKey | McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
        McMemberRecord::kTrafficClass | McMemberRecord::kRateSelector | McMemberRecord::kRate |
        McMemberRecord::kSl | McMemberRecord::kFlowLabel | McMemberRecord::kHopLimit;
  }
  env_.out.counters.add(Counter::join_questions);
  const QuestionId id = question.id;
  env_.out.events.emplace_back(question);
  return id;
}

void Group::emit_leave() {
  LeaveGroup leave{};
  leave.record.mgid = mgid_;
  leave.record.port_gid = env_.port;
  leave.record.join_state = McMemberRecord::kFullMember;
  leave.components = McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kJoinState;
  env_.out.events.emplace_back(leave);
}

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
                        [id](const Confirming& s) { return s.question == id; },
                    },
                    state_);
}

GroupInfo Group::info() const {
  const McMemberRecord* const joined = record();
  return GroupInfo{mgid_, joined != nullptr ? joined->mlid : Lid{}, joined != nullptr};
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
                        [](const Confirming&) { return std::string{}; },
                    },
                    state_);
}

}  // namespace ipoib::link
