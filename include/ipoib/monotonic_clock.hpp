// The clock of TimePoint.
#pragma once

#include "ipoib/time.hpp"

namespace ipoib {

/// Reads CLOCK_MONOTONIC. Only event loops call it, once per iteration.
[[nodiscard]] TimePoint monotonic_now();

}  // namespace ipoib
