// Time is an argument. Only an event loop reads a clock, once per turn, and hands the value down.
#pragma once

#include <chrono>

namespace ipoib {

/// Names the monotonic time line; it has no now() on purpose.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
};

using Duration = Clock::duration;
using TimePoint = Clock::time_point;
/// "No deadline": later than anything.
inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace ipoib
