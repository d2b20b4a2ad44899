#include "link/send_group.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/refusal.hpp"

namespace ipoib::link {

using namespace send_group_state;
using wire::McMemberRecord;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<State>> kNames{"Waiting", "Asking",
                                                                          "Ready", "Missing"};

}  // namespace

Frame SendGroup::on_packet(Frame&& frame, TimePoint now) {
  const auto park = [&](ParkedFrames& parked) {
    parked.park(std::move(frame), Purpose::packet, env_.out.counters);
    return Frame();
  };
  return std::visit(Overloaded{
                        [&](Waiting& s) { return park(s.parked); },
                        [&](Asking& s) { return park(s.parked); },
                        [&](Ready& s) {
                          used_ = now;
                          env_.out.sends.push_back(
                              Outgoing{s.membership.handle, kMulticastQpn, std::move(frame)});
                          return Frame();
                        },
                        [&](Missing&) { return std::move(frame); },
                    },
                    state_);
}

void SendGroup::on_turn() {
  std::visit(Overloaded{
                 [&](Waiting& s) {
                   const QuestionId question =
                       ask_to_join(env_, mgid_, McMemberRecord::kSendOnlyNonMember, nullptr);
                   become(Asking{question, std::move(s.parked)}, "its turn");
                 },
                 [](Asking&) { assert(false && "it has had its turn"); },
                 [](Ready&) { assert(false && "it has had its turn"); },
                 [](Missing&) { assert(false && "it has had its turn"); },
             },
             state_);
}

std::vector<Frame> SendGroup::on_answer(const JoinAnswer& answer, TimePoint now) {
  auto* const asking = std::get_if<Asking>(&state_);
  assert(asking != nullptr && "its question is answered");
  std::vector<Frame> parked = asking->parked.take();
  const auto* const record = std::get_if<McMemberRecord>(&answer);
  std::optional<Membership> membership;
  if (record != nullptr) membership = accept(env_, mgid_, *record);
  if (membership) {
    used_ = now;
    for (Frame& frame : parked) {
      env_.out.sends.push_back(Outgoing{membership->handle, kMulticastQpn, std::move(frame)});
    }
    become(Ready{std::move(*membership), now + env_.config.send_only_idle}, "joined");
    return {};
  }
  env_.out.counters.add(Counter::join_refusals);
  // RFC 4391, 12: failed operations "SHOULD be logged"; that nobody listens is none.
  if (const auto* const refusal = std::get_if<Refusal>(&answer)) {
    env_.log.debug("group {}: send-only join: {}", mgid_.to_string(), describe(*refusal));
  }
  become(Missing{now + env_.random.jittered(env_.config.missing_group, 75, 125)}, "refused");
  return parked;
}

Disposition SendGroup::on_deadline(TimePoint now) {
  return std::visit(Overloaded{
                        [](Waiting&) { return Disposition::keep; },
                        [](Asking&) { return Disposition::keep; },
                        [&](Ready& s) {
                          const TimePoint idle = used_ + env_.config.send_only_idle;
                          if (idle > now) {
                            s.look_at = idle;
                            return Disposition::keep;
                          }
                          ask_to_leave(env_, mgid_, McMemberRecord::kSendOnlyNonMember);
                          return Disposition::erase;
                        },
                        [](Missing&) { return Disposition::erase; },
                    },
                    state_);
}

/// What waits for an answer goes on waiting: it comes after whatever has happened.
Disposition SendGroup::on_outdated() {
  return std::visit(Overloaded{
                        [](Waiting&) { return Disposition::keep; },
                        [](Asking&) { return Disposition::keep; },
                        [](Ready&) { return Disposition::erase; },
                        [](Missing&) { return Disposition::erase; },
                    },
                    state_);
}

void SendGroup::on_removed(Counter why, bool leave) {
  const auto give_up = [&] {
    if (leave) ask_to_leave(env_, mgid_, McMemberRecord::kSendOnlyNonMember);
  };
  std::visit(Overloaded{
                 [&](Waiting& s) { s.parked.drop(why, env_.out.counters); },
                 [&](Asking& s) {
                   s.parked.drop(why, env_.out.counters);
                   give_up();
                 },
                 [&](Ready&) { give_up(); },
                 [](Missing&) {},
             },
             state_);
}

bool SendGroup::asks(QuestionId id) const {
  const auto* const asking = std::get_if<Asking>(&state_);
  return asking != nullptr && asking->question == id;
}

TimePoint SendGroup::next_deadline() const {
  return std::visit(Overloaded{
                        [](const Waiting&) { return kNever; },
                        [](const Asking&) { return kNever; },
                        [](const Ready& s) { return s.look_at; },
                        [](const Missing& s) { return s.until; },
                    },
                    state_);
}

GroupInfo SendGroup::info() const {
  const auto joining = [this](const ParkedFrames& parked) {
    return GroupInfo{mgid_, Lid{}, GroupState::joining, static_cast<std::uint32_t>(parked.size())};
  };
  return std::visit(Overloaded{
                        [&](const Waiting& s) { return joining(s.parked); },
                        [&](const Asking& s) { return joining(s.parked); },
                        [this](const Ready& s) {
                          return GroupInfo{mgid_, s.membership.record.mlid, GroupState::send_only};
                        },
                        [this](const Missing&) {
                          return GroupInfo{mgid_, Lid{}, GroupState::missing};
                        },
                    },
                    state_);
}

void SendGroup::become(State&& next, std::string_view why) {
  env_.log.debug("send-only group {}: {} -> {}: {}", mgid_.to_string(), kNames[state_.index()],
                 kNames[next.index()], why);
  state_ = std::move(next);
}

}  // namespace ipoib::link
