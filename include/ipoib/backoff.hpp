// Exponential back-off: in a row of failures each pause is twice the one before.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipoib/random.hpp"
#include "ipoib/time.hpp"

namespace ipoib {

/// From the pause after one failure to the longest.
struct Backoff {
  Duration first = std::chrono::seconds(1);
  Duration last = std::chrono::seconds(16);

  /// After so many failures in a row.
  [[nodiscard]] constexpr Duration after(unsigned failures) const {
    constexpr unsigned kMaxDoublings = 16;
    const unsigned doublings = std::min(failures > 0 ? failures - 1 : 0, kMaxDoublings);
    return std::min(first * (1U << doublings), last);
  }
  /// Give or take a quarter: who failed together does not try again together.
  [[nodiscard]] Duration after(unsigned failures, Random& random) const {
    return random.jittered(after(failures), 75, 125);
  }
};

/// A row of failures, which is told of once.
class Retry {
 public:
  /// For what this machine refuses.
  static constexpr Backoff kLocal{std::chrono::milliseconds(100), std::chrono::seconds(10)};

  explicit constexpr Retry(const Backoff& backoff = kLocal) : backoff_(backoff) {}

  /// Notes a failure; true for the first of a row.
  [[nodiscard]] bool failed() { return ++failures_ == 1; }
  /// Notes a success; true when it ends a row of failures.
  [[nodiscard]] bool succeeded() { return std::exchange(failures_, 0U) > 0; }

  [[nodiscard]] bool is_failing() const { return failures_ > 0; }
  /// From the last failure to the next attempt.
  [[nodiscard]] Duration pause() const { return backoff_.after(failures_); }
  [[nodiscard]] Duration pause(Random& random) const { return backoff_.after(failures_, random); }

 private:
  Backoff backoff_;
  unsigned failures_ = 0;
};

}  // namespace ipoib
