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
    kSendGroupStates{"Waiting", "Joining", "Ready", "Missing"};

}  // namespace

Frame SendGroup::on_packet(Frame&& frame, TimePoint now) {
  const auto park = [&](ParkedFrames& parked) {
    parked.park(std::move(frame), Purpose::packet, deps_.out.counters);
    return Frame();
  };
  return std::visit(Overloaded{
                        [&](send_group_state::Waiting& s) { return park(s.parked); },
                        [&](send_group_state::Joining& s) { return park(s.parked); },
                        [&](send_group_state::Ready& s) {
                          used_ = now;
                          deps_.out.sends.push_back(
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
                       request_join(deps_, mgid_, McMemberRecord::kSendOnlyNonMember, nullptr);
                   become(send_group_state::Joining{request, std::move(s.parked)},
                          "fewer requests are outstanding");
                 },
                 [](send_group_state::Joining&) { assert(false && "not waiting"); },
                 [](send_group_state::Ready&) { assert(false && "not waiting"); },
                 [](send_group_state::Missing&) { assert(false && "not waiting"); },
             },
             state_);
}

std::vector<Frame> SendGroup::on_response(const wire::SaResult& result, TimePoint now) {
  auto* const joining = std::get_if<send_group_state::Joining>(&state_);
  assert(joining != nullptr && "the response is for its join");
  std::vector<Frame> parked = joining->parked.take();
  const auto* const record = std::get_if<McMemberRecord>(&result);
  std::optional<Membership> membership;
  if (record != nullptr) membership = accept(deps_, mgid_, *record);
  if (membership) {
    used_ = now;
    for (Frame& frame : parked) {
      deps_.out.sends.push_back(Outgoing{membership->handle, kMulticastQpn, std::move(frame)});
    }
    become(send_group_state::Ready{std::move(*membership), now + deps_.config.send_only_idle},
           "joined");
    return {};
  }
  deps_.out.counters.add(Counter::join_refusals);
  // RFC 4391, 12: failed operations "SHOULD be logged"; a group without members is no failure.
  if (record == nullptr) {
    deps_.log.debug("group {}: send-only join: {}", mgid_.to_string(),
                    wire::failure_of(result).text());
  }
  become(
      send_group_state::Missing{now + deps_.random.jittered(deps_.config.missing_group, 75, 125)},
      "refused");
  return parked;
}

Disposition SendGroup::on_deadline(TimePoint now) {
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Joining&) { return Disposition::keep; },
                        [&](send_group_state::Ready& s) {
                          const TimePoint idle = used_ + deps_.config.send_only_idle;
                          if (idle > now) {
                            s.look_at = idle;
                            return Disposition::keep;
                          }
                          request_leave(deps_, mgid_, McMemberRecord::kSendOnlyNonMember);
                          return Disposition::erase;
                        },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

/// An outstanding request stays: its response is newer than the event.
Disposition SendGroup::on_outdated() {
  return std::visit(Overloaded{
                        [](send_group_state::Waiting&) { return Disposition::keep; },
                        [](send_group_state::Joining&) { return Disposition::keep; },
                        [](send_group_state::Ready&) { return Disposition::erase; },
                        [](send_group_state::Missing&) { return Disposition::erase; },
                    },
                    state_);
}

void SendGroup::on_removed(Counter why, bool leave) {
  const auto give_up = [&] {
    if (leave) request_leave(deps_, mgid_, McMemberRecord::kSendOnlyNonMember);
  };
  std::visit(Overloaded{
                 [&](send_group_state::Waiting& s) { s.parked.drop(why, deps_.out.counters); },
                 [&](send_group_state::Joining& s) {
                   s.parked.drop(why, deps_.out.counters);
                   give_up();
                 },
                 [&](send_group_state::Ready&) { give_up(); },
                 [](send_group_state::Missing&) {},
             },
             state_);
}

bool SendGroup::has_requested(wire::SaRequestId id) const {
  const auto* const joining = std::get_if<send_group_state::Joining>(&state_);
  return joining != nullptr && joining->request == id;
}

TimePoint SendGroup::next_deadline() const {
  return std::visit(Overloaded{
                        [](const send_group_state::Waiting&) { return kNever; },
                        [](const send_group_state::Joining&) { return kNever; },
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
                        [&](const send_group_state::Joining& s) { return joining(s.parked); },
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
  deps_.log.debug("send-only group {}: {} -> {}: {}", mgid_.to_string(),
                  kSendGroupStates[state_.index()], kSendGroupStates[next.index()], why);
  state_ = std::move(next);
}

}  // namespace ipoib::link
