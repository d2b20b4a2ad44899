// Random numbers for jitter: splitmix64, not for secrets. The owner seeds it, so runs can be
// repeated.
#pragma once

#include <cstdint>
#include <functional>

#include "ipoib/time.hpp"

namespace ipoib {

/// Returns numbers that others cannot guess, unlike Random.
using RandomSource = std::function<std::uint32_t()>;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  /// Uniform between `low` and `high` per cent of `base`; `low` < `high`.
  [[nodiscard]] Duration jittered(Duration base, unsigned low, unsigned high) {
    const Duration from = base * low / 100;
    const Duration width = base * (high - low) / 100;
    return from + width * static_cast<Duration::rep>(next() % 4097) / 4096;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ipoib
