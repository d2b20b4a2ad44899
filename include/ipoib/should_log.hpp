// Limits log lines about repeated failures.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ipoib/time.hpp"

namespace ipoib {

/// Whether to log the n-th failure in a row: the first, second, fourth, eighth and so on.
[[nodiscard]] constexpr bool should_log(unsigned failures) { return std::has_single_bit(failures); }

/// Counts failures in a row.
class FailureCount {
 public:
  /// Counts another one. Returns whether to log it.
  [[nodiscard]] bool add() { return should_log(++count_); }
  void reset() { count_ = 0; }
  /// The text for the end of a log line; empty for the first failure.
  [[nodiscard]] std::string in_a_row() const {
    return count_ > 1 ? " (failure " + std::to_string(count_) + " in a row)" : "";
  }

 private:
  unsigned count_ = 0;
};

/// Limits log lines about what strangers can cause at any rate.
class LogPause {
 public:
  /// `interval` is the time between two lines.
  explicit LogPause(Duration interval = std::chrono::seconds(10)) : interval_(interval) {}

  /// Returns how many lines were left out since the last one; nullopt if this one is to be left
  /// out, too.
  [[nodiscard]] std::optional<std::uint64_t> take(TimePoint now) {
    if (now < quiet_until_) {
      ++left_out_;
      return std::nullopt;
    }
    quiet_until_ = now + interval_;
    return std::exchange(left_out_, 0);
  }

 private:
  Duration interval_;
  TimePoint quiet_until_{};
  std::uint64_t left_out_ = 0;
};

}  // namespace ipoib
