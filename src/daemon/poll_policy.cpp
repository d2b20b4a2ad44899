#include "daemon/poll_policy.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::daemon {

void PollPolicy::begin(TimePoint now) {
  const Duration taken = now - std::exchange(began_, now);
  if (last_ == Turn::work) {
    budget_ += kSpinPerWork * std::min(taken, kLongestSpin);
    worked_until_ = now;
    others_ = {};
  } else if (last_ == Turn::look) {
    shortest_look_ = std::min(shortest_look_, taken);
    const Duration own = std::min(taken, std::max(kLongestLook, kLooks * shortest_look_));
    budget_ -= own;
    others_ += taken - own;
  }
  budget_ = std::clamp(budget_, Duration::zero(), kLongestSpin);
}

void PollPolicy::on_work(TimePoint now) {
  begin(now);
  if (last_ != Turn::work) {
    const bool is_short = now - worked_until_ <= kSteadyPause;
    short_pauses_ = is_short ? std::min(short_pauses_ + 1, kSteady) : 0;
  }
  if (last_ == Turn::look && mode_ == PollMode::adaptive) ++counters_.spins;
  last_ = Turn::work;
}

PollPolicy::Next PollPolicy::on_nothing(TimePoint now) {
  begin(now);
  const bool looks = mode_ == PollMode::adaptive && (budget_ > Duration::zero() || may_wait(now));
  if (looks || mode_ == PollMode::busy) {
    last_ = Turn::look;
    return Next::look;
  }
  if (last_ == Turn::look) ++counters_.spins_in_vain;
  last_ = Turn::sleep;
  ++counters_.sleeps;
  return Next::sleep;
}

bool PollPolicy::may_wait(TimePoint now) const {
  const auto waited = now - worked_until_;
  return last_ != Turn::sleep && short_pauses_ == kSteady && waited < kSteadyPause &&
         others_ <= waited / kOthersShare;
}

}  // namespace ipoib::daemon
