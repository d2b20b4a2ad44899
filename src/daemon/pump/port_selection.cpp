#include "daemon/pump/port_selection.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::daemon {

void PortSelection::on_health(PortRole role, PortHealth health, TimePoint now) {
  auto& port = ports_[role];
  if (health > port.health) port.since = now;
  port.health = health;
  if (role == active_ && health != PortHealth::down) has_served_ = true;
}

void PortSelection::choose(PortRole role) {
  active_ = role;
  chosen_ = true;
}

void PortSelection::restore(PortRole role, const SavedSelection& saved) {
  active_ = role;
  chosen_ = saved.is_chosen;
  hold_down_factor_ = saved.hold_down_factor;
}

std::optional<PortSelection::Due> PortSelection::due() const {
  const PortRole other = other_than(active_);
  const auto& [health, since] = ports_[other];
  const PortHealth own = ports_[active_].health;
  if (health == PortHealth::down) return std::nullopt;
  // Without any link, a port that may flap is better than none.
  if (own == PortHealth::down) {
    return Due{{other, Reason::down}, has_served_ ? since : since + kStartGrace};
  }
  // The tests of both ports were made at the same time.
  if (own == PortHealth::silent && health > own) return Due{{other, Reason::silent}, since};
  const TimePoint steady = since + hold_down(other);
  if (own < health) return Due{{other, Reason::no_sm}, steady};
  const bool returns = settings_.reselect == Reselect::always && !chosen_;
  if (own == health && other == PortRole::primary && returns) {
    return Due{{other, Reason::primary_is_back}, steady};
  }
  return std::nullopt;
}

Duration PortSelection::hold_down(PortRole role) const {
  return role == PortRole::primary ? settings_.hold_down * hold_down_factor_ : settings_.hold_down;
}

/// A port that fails soon after each return would interrupt the traffic again and again.
void PortSelection::count_flap(const Move& move, TimePoint now) {
  if (move.why == Reason::primary_is_back) {
    returned_ = now;
  } else if (move.to == PortRole::backup) {
    const bool flaps = returned_ && now - *returned_ < kFlapTime;
    const int factor = flaps ? std::min(2 * hold_down_factor_, int{kMaxHoldDownFactor}) : 1;
    hold_down_factor_ = static_cast<std::uint8_t>(factor);
    returned_.reset();
  }
}

std::optional<PortSelection::Move> PortSelection::next(TimePoint now) {
  const auto next = due();
  if (!next || next->at > now) return std::nullopt;
  count_flap(next->move, now);
  active_ = next->move.to;
  has_served_ = true;
  chosen_ = false;
  return next->move;
}

TimePoint PortSelection::next_deadline() const {
  const auto next = due();
  return next ? next->at : kNever;
}

}  // namespace ipoib::daemon
