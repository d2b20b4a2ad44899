#include "daemon/poll_policy.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::daemon {

void PollPolicy::on_work(TimePoint now) {
  const auto ended = std::exchange(wait_, Wait::none);
  if (ended == Wait::none || mode_ != PollMode::adaptive) return;
  if (ended == Wait::awake) ++counters_.spins;
  if (now - since_ <= kLongestSpin) {
    budget_ = std::clamp(2 * budget_, kShortestSpin, kLongestSpin);
  } else {
    budget_ -= budget_ / 8;
    if (budget_ < kShortestSpin / 2) budget_ = {};
  }
}

PollPolicy::Next PollPolicy::on_nothing(TimePoint now) {
  const auto before = wait_;
  if (before == Wait::none) since_ = now;
  if (before != Wait::asleep && may_spin(now)) {
    wait_ = Wait::awake;
    return Next::look;
  }
  if (before == Wait::awake) ++counters_.spins_in_vain;
  wait_ = Wait::asleep;
  ++counters_.sleeps;
  return Next::sleep;
}

void PollPolicy::on_delay(std::optional<Duration> total, TimePoint now) {
  crowded_ = !total || (*total - delay_) * kCrowdedShare > now - told_;
  delay_ = total.value_or(delay_);
  told_ = now;
}

bool PollPolicy::may_spin(TimePoint now) const {
  switch (mode_) {
    case PollMode::event:
      return false;
    case PollMode::busy:
      return true;
    case PollMode::adaptive:
      return !crowded_ && now - since_ < budget_;
  }
  return false;
}

}  // namespace ipoib::daemon
