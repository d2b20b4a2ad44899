// A rate limit that grants moments: so many a second, so many at once, and some ahead of time.
//
// Each grant moves the moment of the next one on by the interval; a pause lets the bucket fill up
// to `burst` grants. Who is granted a moment in the future has it for sure, in the order of asking,
// so those who wait need no queue and do not stampede.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib::link {

class TokenBucket {
 public:
  TokenBucket(std::uint32_t per_second, std::uint32_t burst)
      : interval_(Duration(std::chrono::seconds(1)) / std::max(per_second, 1U)),
        tolerance_(interval_ * (std::max(burst, 1U) - 1)) {}

  /// The moment at which whoever asks now may act.
  [[nodiscard]] TimePoint next_moment(TimePoint now) const {
    return std::max(now, next_ - tolerance_);
  }
  /// That moment, which is the caller's from now on.
  TimePoint reserve(TimePoint now) {
    const TimePoint moment = next_moment(now);
    next_ = std::max(next_, now) + interval_;
    return moment;
  }
  /// Whether the caller may act now; then it has to.
  [[nodiscard]] bool take(TimePoint now) {
    if (next_moment(now) > now) return false;
    (void)reserve(now);
    return true;
  }

 private:
  Duration interval_;
  Duration tolerance_;
  TimePoint next_{};  ///< when the bucket is full again
};

}  // namespace ipoib::link
