// Counts durations in buckets with fixed bounds.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "ipoib/time.hpp"

namespace ipoib {

/// The counts of the buckets. Their bounds go from 100 us, less than a switch takes to forward a
/// request, to 10 s, longer than any resolution.
class DurationHistogram {
 public:
  static constexpr auto kBounds = std::to_array<Duration>({
      std::chrono::microseconds(100),
      std::chrono::microseconds(250),
      std::chrono::microseconds(500),
      std::chrono::milliseconds(1),
      std::chrono::microseconds(2500),
      std::chrono::milliseconds(5),
      std::chrono::milliseconds(10),
      std::chrono::milliseconds(25),
      std::chrono::milliseconds(50),
      std::chrono::milliseconds(100),
      std::chrono::milliseconds(250),
      std::chrono::milliseconds(500),
      std::chrono::seconds(1),
      std::chrono::milliseconds(2500),
      std::chrono::seconds(5),
      std::chrono::seconds(10),
  });
  /// The last count is of durations that are longer than all bounds.
  using Counts = std::array<std::uint64_t, kBounds.size() + 1>;

  /// A duration that equals a bound belongs to that bucket.
  void add(Duration duration) {
    const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), duration);
    ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
    sum_ += duration;
  }
  DurationHistogram& operator+=(const DurationHistogram& other) {
    std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus<>());
    sum_ += other.sum_;
    return *this;
  }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Duration sum() const { return sum_; }

 private:
  Counts counts_{};
  Duration sum_{};
};

}  // namespace ipoib
