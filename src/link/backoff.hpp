// Exponential back-off with jitter, in one place for joins and paths.
#pragma once

#include <algorithm>

#include "ipoib/random.hpp"
#include "link/config.hpp"

namespace ipoib::link {

/// The pause after the `refusals`-th refusal in a row, counted from 1.
[[nodiscard]] inline Duration pause_after(unsigned refusals, const Backoff& backoff,
                                          Random& random) {
  constexpr unsigned kMaxDoublings = 16;
  const unsigned doublings = std::min(refusals > 0 ? refusals - 1 : 0, kMaxDoublings);
  return random.jittered(std::min(backoff.first * (1U << doublings), backoff.last), 75, 125);
}

}  // namespace ipoib::link
