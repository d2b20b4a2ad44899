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

/// Whether `mac` may send from the address: several routers may forward packets from one.
bool StationAddress::admits(MacAddress mac) const {
  if (std::holds_alternative<Refused>(state_)) return false;
  return mac == mac_ || std::holds_alternative<Routed>(state_);
}

Disposition StationAddress::on_seen(MacAddress mac, StationOutput& out, TimePoint now) {
  const bool is_same = mac == mac_;
  if (is_same) heard_ = now;
  const bool is_heard = heard_ + times_.quiet > now;
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
          [&](Reachable&) {
            return is_same || is_heard ? Disposition::keep : contest(mac, out, now, false);
          },
          [&](Probing&) {
            if (is_same) return become_reachable(now);
            return is_heard ? Disposition::keep : contest(mac, out, now, false);
          },
      },
      state_);
}

Disposition StationAddress::on_owned(MacAddress mac, StationOutput& out, TimePoint now) {
  const bool was_served = is_served();
  if (!was_served) out.services.push_back({address_, is_router_, true});
  if (!was_served || mac != mac_) {
    mac_ = mac;
    report(was_served ? StationEvent::Kind::moved : StationEvent::Kind::appeared, out);
  }
  return become_reachable(now);
}

Disposition StationAddress::on_restored(bool is_router, StationOutput& out, TimePoint heard) {
  assert(std::holds_alternative<New>(state_));
  is_router_ = is_router;
  heard_ = heard;
  out.services.push_back({address_, is_router_, true});
  return become(Reachable{}, heard_ + times_.reachable);
}

Disposition StationAddress::on_claimed(MacAddress mac, StationOutput& out, TimePoint now) {
  const bool is_same = mac == mac_;
  if (is_same) heard_ = now;
  return std::visit(
      Overloaded{
          [&](OneOf<New, Unconfirmed, Routed> auto&) {
            mac_ = mac;
            heard_ = now;
            return become_checking(out, now);
          },
          [&](Checking&) {
            if (!is_same) report(StationEvent::Kind::duplicate, out, mac);
            return Disposition::keep;
          },
          [&](Reachable&) { return is_same ? Disposition::keep : contest(mac, out, now); },
          [&](Probing&) { return is_same ? become_reachable(now) : contest(mac, out, now); },
          [&](Contested& s) {
            if (!is_same) {
              if (!s.is_claim) s = Contested{mac, true, s.probes};
              return Disposition::keep;
            }
            if (s.is_claim) report(StationEvent::Kind::duplicate, out, s.rival);
            return become_reachable(now);
          },
          [&](Refused&) {
            if (deadline_ - times_.refused + times_.recheck > now) return Disposition::keep;
            mac_ = mac;
            heard_ = now;
            return become_checking(out, now);
          },
      },
      state_);
}

Disposition StationAddress::on_fabric(const HwAddress& host, StationOutput& out, TimePoint now) {
  return std::visit(Overloaded{
                        [](OneOf<New, Unconfirmed, Routed> auto&) { return Disposition::erase; },
                        [&](Checking& s) {
                          s.answered = true;
                          if (!s.again) return Disposition::keep;
                          report(StationEvent::Kind::duplicate, out, host);
                          return become(Refused{}, now + times_.refused);
                        },
                        [&](OneOf<Reachable, Probing> auto&) { return contest(host, out, now); },
                        [](OneOf<Contested, Refused> auto&) { return Disposition::keep; },
                    },
                    state_);
}

/// The station is asked only if it sends nothing in return.
Disposition StationAddress::on_packet(TimePoint now) {
  if (!is_silent(now)) return Disposition::keep;
  return become(Probing{.probes = 0, .may_leave = false}, now + times_.contest);
}

/// The request that is passed on is the first probe.
Disposition StationAddress::on_asked(TimePoint now) {
  if (auto* const probing = std::get_if<Probing>(&state_)) probing->may_leave = true;
  const bool is_reachable = std::holds_alternative<Reachable>(state_);
  return is_reachable ? become(Probing{}, now + times_.contest) : Disposition::keep;
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
                        [&](Checking& s) { return check_ends(s, out, now); },
                        [&](Reachable&) {
                          if (heard_ + times_.reachable > now) {
                            deadline_ = heard_ + times_.reachable;
                            return Disposition::keep;
                          }
                          ask(out);
                          return become(Probing{}, now + times_.contest);
                        },
                        [&](Probing& s) { return probe_ends(s, out, now); },
                        [&](Contested& s) {
                          if (s.probes >= times_.probes)
                            return contest_ends(Contested(s), out, now);
                          ++s.probes;
                          ask(out);
                          deadline_ = now + times_.contest;
                          return Disposition::keep;
                        },
                    },
                    state_);
}

/// The host that had the address may have been asked just before it gave up the address, as the
/// last master of VRRP is: so its first answer does not count.
Disposition StationAddress::check_ends(Checking& s, StationOutput& out, TimePoint now) {
  if (s.answered && !s.again) {
    s.again = true;
    out.checks.push_back(address_);
    deadline_ = now + times_.check;
    return Disposition::keep;
  }
  out.services.push_back({address_, is_router_, true});
  report(StationEvent::Kind::appeared, out);
  return become_reachable(now);
}

/// After a few requests the fabric is asked, too. Only who was asked by ARP or Neighbour Discovery,
/// or has long been silent, is given up in the end.
Disposition StationAddress::probe_ends(Probing& s, StationOutput& out, TimePoint now) {
  const bool is_last = s.probes >= (s.is_searched ? 2 : 1) * times_.probes;
  if (!s.is_searched && is_last) {
    s.is_searched = true;
    if (out.limits.searches.take(now)) out.searches.push_back(address_);
    deadline_ = now + times_.search;
    return Disposition::keep;
  }
  if (!s.may_leave && (s.is_searched || !out.limits.probes.take(now))) {
    return become(Reachable{}, heard_ + times_.reachable);
  }
  if (is_last) {
    report(StationEvent::Kind::left, out);
    on_removed(out);
    return Disposition::erase;
  }
  ++s.probes;
  ask(out);
  deadline_ = now + (s.is_searched ? times_.probe : times_.contest);
  return Disposition::keep;
}

/// The station that had the address does not answer.
Disposition StationAddress::contest_ends(const Contested& last, StationOutput& out, TimePoint now) {
  const auto* const other = std::get_if<MacAddress>(&last.rival);
  if (other != nullptr && last.is_claim) {
    mac_ = *other;
    report(StationEvent::Kind::moved, out);
    return become_reachable(now);
  }
  if (other != nullptr) {
    report(StationEvent::Kind::left, out);
  } else {
    report(StationEvent::Kind::moved_out, out, last.rival);
  }
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

Disposition StationAddress::become_checking(StationOutput& out, TimePoint now) {
  out.checks.push_back(address_);
  return become(Checking{}, now + times_.check);
}

Disposition StationAddress::contest(const StationRival& rival, StationOutput& out, TimePoint now,
                                    bool is_claim) {
  const auto* const probing = std::get_if<Probing>(&state_);
  const unsigned before = probing != nullptr ? probing->probes : 0;
  ask(out);
  return become(Contested{rival, is_claim, before + 1}, now + times_.contest);
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
