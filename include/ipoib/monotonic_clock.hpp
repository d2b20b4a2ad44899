// The clock behind TimePoint.
#pragma once

#include "ipoib/time.hpp"

namespace ipoib {

/// CLOCK_MONOTONIC. For event loops only, once per turn.
[[nodiscard]] TimePoint monotonic_now();

}  // namespace ipoib
