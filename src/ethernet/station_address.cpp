#include "ethernet/station_address.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/overloaded.hpp"

namespace ipoib::ethernet {
namespace {

template <class T, class... Types>
concept OneOf = (std::is_same_v<std::remove_cvref_t<T>, Types> || ...);

}  // namespace

using Disposition = StationAddress::Disposition;

const char* name(StationState state) {
  static constexpr std::array<const char*, 7> kNames{
      "unconfirmed", "routed", "checking", "reachable", "probing", "contested", "refused"};
  return kNames[static_cast<std::size_t>(state)];
}

const char* name(StationEvent::Kind kind) {
  static constexpr std::array<const char*, 5> kNames{"appeared", "left", "moved", "moved_out",
                                                     "duplicate"};
  return kNames[static_cast<std::size_t>(kind)];
}

StationState StationAddress::state_name() const {
  assert(!std::holds_alternative<New>(state_));
  return static_cast<StationState>(state_.index() - 1);
}

bool StationAddress::is_served() const {
  return !std::holds_alternative<New>(state_) && ethernet::is_served(state_name());
}

/// Several routers may forward packets from one address.
bool StationAddress::admits(MacAddress mac) const {
  if (std::holds_alternative<Refused>(state_)) return false;
  return mac == mac_ || std::holds_alternative<Routed>(state_);
}

Disposition StationAddress::on_seen(MacAddress mac, StationOutput& out, TimePoint now) {
  const bool is_same = mac == mac_;
  if (is_same) heard_ = now;
  return std::visit(
      Overloaded{
          [&](New&) {
            ask(out);
            return become(Unconfirmed{}, now + times_.probe);
          },
          [](OneOf<Unconfirmed, Checking, Contested, Refused> auto&) { return Disposition::keep; },
          [&](Routed&) {
            if (is_same) deadline_ = now + times_.routed;
            return Disposition::keep;
          },
          [&](Reachable&) { return is_same ? Disposition::keep : contest(mac, out, now); },
          [&](Probing&) { return is_same ? become_reachable(now) : contest(mac, out, now); },
      },
      state_);
}

Disposition StationAddress::on_claimed(MacAddress mac, StationOutput& out, TimePoint now) {
  const bool is_same = mac == mac_;
  if (is_same) heard_ = now;
  return std::visit(
      Overloaded{
          [&](OneOf<New, Unconfirmed, Routed> auto&) {
            mac_ = mac;
            heard_ = now;
            out.checks.push_back(address_);
            return become(Checking{}, now + times_.check);
          },
          [&](Checking&) {
            if (!is_same) report(StationEvent::Kind::duplicate, out, mac);
            return Disposition::keep;
          },
          [&](Reachable&) { return is_same ? Disposition::keep : contest(mac, out, now); },
          [&](Probing&) { return is_same ? become_reachable(now) : contest(mac, out, now); },
          [&](Contested& s) {
            if (!is_same) return Disposition::keep;
            report(StationEvent::Kind::duplicate, out, s.rival);
            return become_reachable(now);
          },
          [](Refused&) { return Disposition::keep; },
      },
      state_);
}

Disposition StationAddress::on_fabric(const HwAddress& host, StationOutput& out, TimePoint now) {
  return std::visit(Overloaded{
                        [](OneOf<New, Unconfirmed, Routed> auto&) { return Disposition::erase; },
                        [&](Checking&) {
                          report(StationEvent::Kind::duplicate, out, host);
                          return become(Refused{}, now + times_.refused);
                        },
                        [&](OneOf<Reachable, Probing> auto&) { return contest(host, out, now); },
                        [](OneOf<Contested, Refused> auto&) { return Disposition::keep; },
                    },
                    state_);
}

/// The request is the first probe.
Disposition StationAddress::on_asked(TimePoint now) {
  const bool is_reachable = std::holds_alternative<Reachable>(state_);
  return is_reachable ? become(Probing{}, now + times_.probe) : Disposition::keep;
}

Disposition StationAddress::on_deadline(StationOutput& out, TimePoint now) {
  return std::visit(Overloaded{
                        [](OneOf<New, Routed, Refused> auto&) { return Disposition::erase; },
                        [&](Unconfirmed& s) {
                          if (s.probes >= times_.probes)
                            return become(Routed{}, now + times_.routed);
                          ++s.probes;
                          ask(out);
                          deadline_ = now + times_.probe;
                          return Disposition::keep;
                        },
                        [&](Checking&) {
                          out.services.push_back({address_, is_router_, true});
                          report(StationEvent::Kind::appeared, out);
                          return become_reachable(now);
                        },
                        [&](Reachable&) {
                          if (heard_ + times_.reachable > now) {
                            deadline_ = heard_ + times_.reachable;
                            return Disposition::keep;
                          }
                          ask(out);
                          return become(Probing{}, now + times_.probe);
                        },
                        [&](Probing& s) {
                          if (s.probes >= times_.probes) {
                            report(StationEvent::Kind::left, out);
                            on_removed(out);
                            return Disposition::erase;
                          }
                          ++s.probes;
                          ask(out);
                          deadline_ = now + times_.probe;
                          return Disposition::keep;
                        },
                        [&](Contested& s) {
                          if (s.probes >= times_.probes)
                            return contest_ends(StationRival(s.rival), out, now);
                          ++s.probes;
                          ask(out);
                          deadline_ = now + times_.contest;
                          return Disposition::keep;
                        },
                    },
                    state_);
}

/// The station that had the address does not answer.
Disposition StationAddress::contest_ends(const StationRival& rival, StationOutput& out,
                                         TimePoint now) {
  if (const auto* const other = std::get_if<MacAddress>(&rival)) {
    mac_ = *other;
    report(StationEvent::Kind::moved, out);
    return become_reachable(now);
  }
  report(StationEvent::Kind::moved_out, out, rival);
  on_removed(out);
  return Disposition::erase;
}

void StationAddress::on_removed(StationOutput& out) const {
  if (is_served()) out.services.push_back({address_, is_router_, false});
}

void StationAddress::set_router(bool is_router, StationOutput& out) {
  if (std::exchange(is_router_, is_router) == is_router) return;
  if (is_served()) out.services.push_back({address_, is_router_, true});
}

Disposition StationAddress::contest(const StationRival& rival, StationOutput& out, TimePoint now) {
  ask(out);
  return become(Contested{rival}, now + times_.contest);
}

Disposition StationAddress::become_reachable(TimePoint now) {
  heard_ = now;
  return become(Reachable{}, now + times_.reachable);
}

Disposition StationAddress::become(State state, TimePoint deadline) {
  state_ = state;
  deadline_ = deadline;
  return Disposition::keep;
}

}  // namespace ipoib::ethernet
