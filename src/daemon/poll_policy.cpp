#include "daemon/poll_policy.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::daemon {

void PollPolicy::begin(TimePoint now) {
  const Duration taken = now - std::exchange(began_, now);
  if (last_ == Turn::work) budget_ += kSpinPerWork * std::min(taken, kLongestSpin);
  if (last_ == Turn::look) budget_ -= std::min(taken, kLongestLook);
  budget_ = std::clamp(budget_, Duration::zero(), kLongestSpin);
}

void PollPolicy::on_work(TimePoint now) {
  begin(now);
  if (last_ == Turn::look && mode_ == PollMode::adaptive) ++counters_.spins;
  last_ = Turn::work;
}

PollPolicy::Next PollPolicy::on_nothing(TimePoint now) {
  begin(now);
  if (mode_ == PollMode::busy || (mode_ == PollMode::adaptive && budget_ > Duration::zero())) {
    last_ = Turn::look;
    return Next::look;
  }
  if (last_ == Turn::look) ++counters_.spins_in_vain;
  last_ = Turn::sleep;
  ++counters_.sleeps;
  return Next::sleep;
}

}  // namespace ipoib::daemon
