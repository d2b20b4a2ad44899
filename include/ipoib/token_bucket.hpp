// A token bucket that can also reserve future times.
//
// Each reservation moves the time of the next one by the interval; a pause refills the bucket up to
// `burst`. A caller with a reserved time needs no queue, and waiting callers do not all act at
// once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib {

class TokenBucket {
 public:
  /// A bucket with a burst of a quarter of a second.
  explicit TokenBucket(std::uint32_t per_second) : TokenBucket(per_second, per_second / 4) {}
  TokenBucket(std::uint32_t per_second, std::uint32_t burst)
      : interval_(Duration(std::chrono::seconds(1)) / std::max(per_second, 1U)),
        tolerance_(interval_ * (std::max(burst, 1U) - 1)) {}

  /// The earliest time that reserve() would return.
  [[nodiscard]] TimePoint next_moment(TimePoint now) const {
    return std::max(now, next_ - tolerance_);
  }
  /// Reserves the next time for the caller.
  TimePoint reserve(TimePoint now) {
    const TimePoint moment = next_moment(now);
    next_ = std::max(next_, now) + interval_;
    return moment;
  }
  /// Reserves `now` if it is available; else returns false.
  [[nodiscard]] bool take(TimePoint now) {
    if (next_moment(now) > now) return false;
    (void)reserve(now);
    return true;
  }
  /// Whether the whole burst is available.
  [[nodiscard]] bool is_full(TimePoint now) const { return next_ <= now; }

 private:
  Duration interval_;
  Duration tolerance_;
  TimePoint next_{};  ///< when the bucket is full again
};

}  // namespace ipoib
