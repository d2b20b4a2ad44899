#include "daemon/pump/poll_policy.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::daemon {

void PollPolicy::begin(TimePoint now) {
  const Duration taken = now - std::exchange(began_, now);
  if (last_ == Turn::work) {
    budget_ += kSpinPerWork * std::min(taken, kMaxSpin);
    worked_until_ = now;
    others_ = {};
  } else if (last_ == Turn::poll) {
    shortest_poll_ = std::min(shortest_poll_, taken);
    const Duration own = std::min(taken, std::max(kMaxPoll, kPollFactor * shortest_poll_));
    budget_ -= own;
    others_ += taken - own;
  }
  budget_ = std::clamp(budget_, Duration::zero(), kMaxSpin);
}

void PollPolicy::on_work(TimePoint now) {
  begin(now);
  if (last_ != Turn::work) {
    const bool is_short = now - worked_until_ <= kSteadyPause;
    short_pauses_ = is_short ? std::min(short_pauses_ + 1, kSteady) : 0;
  }
  if (last_ == Turn::poll && mode_ == PollMode::adaptive) ++counters_.spins;
  last_ = Turn::work;
}

PollPolicy::Next PollPolicy::on_idle(TimePoint now) {
  begin(now);
  const bool polls = mode_ == PollMode::adaptive && (budget_ > Duration::zero() || may_spin(now));
  if (polls || mode_ == PollMode::busy) {
    last_ = Turn::poll;
    return Next::poll;
  }
  if (last_ == Turn::poll) ++counters_.spins_in_vain;
  last_ = Turn::sleep;
  ++counters_.sleeps;
  return Next::sleep;
}

bool PollPolicy::may_spin(TimePoint now) const {
  const auto waited = now - worked_until_;
  return last_ != Turn::sleep && short_pauses_ == kSteady && waited < kSteadyPause &&
         others_ <= waited / kOthersShare;
}

}  // namespace ipoib::daemon
