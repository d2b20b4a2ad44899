#include "ipoib/monotonic_clock.hpp"

namespace ipoib {

TimePoint monotonic_now() { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace ipoib
