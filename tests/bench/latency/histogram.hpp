// A histogram of durations. Each power of two of nanoseconds has kSteps equal buckets, so the
// relative error is at most 1 / kSteps over the whole range.
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

  static constexpr std::uint64_t kSteps = 32;  ///< per power of two
  static constexpr unsigned kBits = 36;        ///< 69 s; longer durations count as that
  static constexpr std::uint64_t kLast = (std::uint64_t{1} << kBits) - 1;
  static constexpr std::size_t kBuckets = (kBits - std::bit_width(kSteps) + 2) * kSteps;

  static constexpr std::size_t bucket(Duration duration) {
    const auto value =
        std::min(kLast, static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0)));
    const auto octave = std::max<std::uint64_t>(std::bit_width(value / kSteps), 1) - 1;
    return octave * kSteps + (value >> octave);
  }
  /// The lower bound of a bucket.
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
  /// The bucket with this quantile: 0.5 is the median. 0 if there are no durations.
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
