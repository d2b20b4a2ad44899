// A histogram of durations: each octave of nanoseconds has equal steps, so values in a bucket
// differ by at most 1/kSteps over the whole range, in bounded memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace ipoib::bench {

class Histogram {
 public:
  using Duration = std::chrono::nanoseconds;

  static constexpr std::uint64_t kSteps = 32;  ///< per octave
  static constexpr unsigned kBits = 36;        ///< 69 s; longer durations count as 69 s
  static constexpr std::uint64_t kLast = (std::uint64_t{1} << kBits) - 1;
  static constexpr std::size_t kBuckets = (kBits - std::bit_width(kSteps) + 2) * kSteps;

  static constexpr std::size_t bucket(Duration duration) {
    const auto value =
        std::min(kLast, static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0)));
    const auto octave = std::max<std::uint64_t>(std::bit_width(value / kSteps), 1) - 1;
    return octave * kSteps + (value >> octave);
  }
  /// Returns the lower bound of a bucket.
  static constexpr Duration least(std::size_t bucket) {
    const std::uint64_t octave = bucket < 2 * kSteps ? 0 : bucket / kSteps - 1;
    return Duration(static_cast<Duration::rep>((bucket - octave * kSteps) << octave));
  }

  void record(Duration duration) {
    ++counts_[bucket(duration)];
    ++total_;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t count(std::size_t bucket) const { return counts_[bucket]; }
  /// Returns the bucket that the given part of the durations (at least one) does not exceed: 0.5
  /// for the median. 0 without durations.
  [[nodiscard]] Duration quantile(double part) const {
    auto left = std::max<std::uint64_t>(
        static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(total_))), 1);
    for (std::size_t at = 0; at < kBuckets && total_ != 0; ++at) {
      if (counts_[at] >= left) return least(at);
      left -= counts_[at];
    }
    return {};
  }

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace ipoib::bench
