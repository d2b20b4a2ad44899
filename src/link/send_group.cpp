#include "link/send_group.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::link {

using wire::McMemberRecord;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<send_group_state::State>>
    kSendGroupStates{"Waiting", "Asking", "Ready", "Missing"};

}  // namespace

Frame SendGroup::on_packet(Frame&& frame, TimePoint now) {
  const auto park = [&](ParkedFrames& parked) {
    parked.park(std::move(frame), Purpose::packet, env_.out.counters);
    return Frame();
  };
  return std::visit(Overloaded{
                        [&](send_group_state::Waiting& s) { return park(s.parked); },
                        [&](send_group_state::Asking& s) { return park(s.parked); },
                        [&](send_group_state::Ready& s) {
                          used_ = now;
                          env_.out.sends.push_back(
                              Outgoing{s.membership.handle, kMulticastQpn, std::move(frame)});
                          return Frame();
                        },
                        [&](send_group_state::Missing&) { return std::move(frame); },
                    },
                    state_);
}

void SendGroup::on_turn() {
  std::visit(Overloaded{
                 [&](send_group_state::Waiting& s) {
                   const wire::SaRequestId request =
                       request_join(env_, mgid_, McMemberRecord::kSendOnlyNonMember, nullptr);
                   become(send_group_state::Asking{request, std::move(s.parked)}, "its turn");
                 },
                 [](send_group_state::Asking&) { assert(false && "it has had its turn"); },
                 [](send_group_state::Ready&) { assert(false && "it has had its turn"); },
                 [](send_group_state::Missing&) { assert(false && "it has had its turn"); },
             },
             state_);
}

std::vector<Frame> SendGroup::on_response(const wire::SaResult& result, TimePoint now) {
  auto* const asking = std::get_if<send_group_state::Asking>(&state_);
  assert(asking != nullptr && "its join is answered");
  std::vector<Frame> parked = asking->parked.take();
  const auto* const record = std::get_if<McMemberRecord>(&result);
  std::optional<Membership> membership;
  if (record != nullptr) membership = accept(env_, mgid_, *record);
  if (membership) {
    used_ = now;
    for (Frame& frame : parked) {
      env_.out.sends.push_back(Outgoing{membership->handle, kMulticastQpn, std::move(frame)});
    }
    become(send_group_state::Ready{std::move(*membership), now + env_.config.send_only_idle},
           "joined");
    return {};
  }
  env_.out.counters.add(Counter::join_refusals);
  // RFC 4391, 12: failed operations "SHOULD be logged"; a group without members is no failure.
  if (record == nullptr) {
    env_.log.debug("group {}: send-only join: {}", mgid_.to_string(),
                   wire::failure_of(result).text());
  }
  become(send_group_state::Missing{now + env_.random.jittered(env_.config.missing_group, 75, 125)},
         "refused");
  return parked;
}

Disposition SendGroup::on_deadline(TimePoint now) {
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Asking&) { return Disposition::keep; },
                        [&](send_group_state::Ready& s) {
                          const TimePoint idle = used_ + env_.config.send_only_idle;
                          if (idle > now) {
                            s.look_at = idle;
                            return Disposition::keep;
                          }
                          request_leave(env_, mgid_, McMemberRecord::kSendOnlyNonMember);
                          return Disposition::erase;
                        },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

/// What waits for an answer goes on waiting: it comes after whatever has happened.
Disposition SendGroup::on_outdated() {
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Asking&) { return Disposition::keep; },
                        [](send_group_state::Ready&) { return Disposition::erase; },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

void SendGroup::on_removed(Counter why, bool leave) {
  const auto give_up = [&] {
    if (leave) request_leave(env_, mgid_, McMemberRecord::kSendOnlyNonMember);
  };
  std::visit(Overloaded{
                 [&](send_group_state::Waiting& s) { s.parked.drop(why, env_.out.counters); },
                 [&](send_group_state::Asking& s) {
                   s.parked.drop(why, env_.out.counters);
                   give_up();
                 },
                 [&](send_group_state::Ready&) { give_up(); },
                 [](send_group_state::Missing&) {},
             },
             state_);
}

bool SendGroup::has_requested(wire::SaRequestId id) const {
  const auto* const asking = std::get_if<send_group_state::Asking>(&state_);
  return asking != nullptr && asking->request == id;
}

TimePoint SendGroup::next_deadline() const {
  return std::visit(Overloaded{
                        [](const send_group_state::Waiting&) { return kNever; },
                        [](const send_group_state::Asking&) { return kNever; },
                        [](const send_group_state::Ready& s) { return s.look_at; },
                        [](const send_group_state::Missing& s) { return s.until; },
                    },
                    state_);
}

GroupInfo SendGroup::info() const {
  const auto joining = [this](const ParkedFrames& parked) {
    return GroupInfo{mgid_, Lid{}, GroupState::joining, static_cast<std::uint32_t>(parked.size())};
  };
  return std::visit(Overloaded{
                        [&](const send_group_state::Waiting& s) { return joining(s.parked); },
                        [&](const send_group_state::Asking& s) { return joining(s.parked); },
                        [this](const send_group_state::Ready& s) {
                          return GroupInfo{mgid_, s.membership.record.mlid, GroupState::send_only};
                        },
                        [this](const send_group_state::Missing&) {
                          return GroupInfo{mgid_, Lid{}, GroupState::missing};
                        },
                    },
                    state_);
}

void SendGroup::become(send_group_state::State&& next, std::string_view why) {
  env_.log.debug("send-only group {}: {} -> {}: {}", mgid_.to_string(),
                 kSendGroupStates[state_.index()], kSendGroupStates[next.index()], why);
  state_ = std::move(next);
}

}  // namespace ipoib::link
