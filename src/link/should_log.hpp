// Limits log lines about repeated failures.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "ipoib/time.hpp"

namespace ipoib::link {

/// Whether to log the n-th failure in a row: the first, second, fourth, eighth and so on.
[[nodiscard]] constexpr bool should_log(unsigned failures) { return std::has_single_bit(failures); }

/// Limits log lines about what strangers can cause at any rate.
class LogPause {
 public:
  /// Between two lines.
  static constexpr Duration kInterval = std::chrono::seconds(10);

  /// Returns how many lines were left out since the last one; nullopt: leave this one out, too.
  [[nodiscard]] std::optional<std::uint64_t> take(TimePoint now) {
    if (now < quiet_until_) {
      ++left_out_;
      return std::nullopt;
    }
    quiet_until_ = now + kInterval;
    return std::exchange(left_out_, 0);
  }

 private:
  TimePoint quiet_until_{};
  std::uint64_t left_out_ = 0;
};

}  // namespace ipoib::link
