// Exponential back-off: the delay doubles with each consecutive failure.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipoib/random.hpp"
#include "ipoib/time.hpp"

namespace ipoib {

struct Backoff {
  Duration first = std::chrono::seconds(1);  ///< delay after one failure
  Duration last = std::chrono::seconds(16);  ///< the longest delay

  /// The delay after `failures` consecutive failures.
  [[nodiscard]] constexpr Duration after(unsigned failures) const {
    constexpr unsigned kMaxDoublings = 16;
    const unsigned doublings = std::min(failures > 0 ? failures - 1 : 0, kMaxDoublings);
    return std::min(first * (1U << doublings), last);
  }
  /// The same delay with a jitter of 25 %, so that clients that failed together do not retry
  /// together.
  [[nodiscard]] Duration after(unsigned failures, Random& random) const {
    return random.jittered(after(failures), 75, 125);
  }
};

/// Counts consecutive failures, so that the caller logs only the first.
class Retry {
 public:
  /// The delays after operations that the local machine refuses.
  static constexpr Backoff kLocal{std::chrono::milliseconds(100), std::chrono::seconds(10)};

  explicit constexpr Retry(const Backoff& backoff = kLocal) : backoff_(backoff) {}

  /// Records a failure, and returns whether it is the first in a row.
  [[nodiscard]] bool failed() { return ++failures_ == 1; }
  /// Records a success, and returns whether it ends a row of failures.
  [[nodiscard]] bool succeeded() { return std::exchange(failures_, 0U) > 0; }

  [[nodiscard]] bool is_failing() const { return failures_ > 0; }
  /// The time from the last failure to the next attempt.
  [[nodiscard]] Duration pause() const { return backoff_.after(failures_); }
  [[nodiscard]] Duration pause(Random& random) const { return backoff_.after(failures_, random); }

 private:
  Backoff backoff_;
  unsigned failures_ = 0;
};

}  // namespace ipoib
