// Time is an argument. Only event loops read the clock, once per iteration, and pass the value on.
#pragma once

#include <chrono>

namespace ipoib {

/// Tag of the monotonic time points. Deliberately without now().
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
};

using Duration = Clock::duration;
using TimePoint = Clock::time_point;
/// No deadline: later than any other time point.
inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace ipoib
