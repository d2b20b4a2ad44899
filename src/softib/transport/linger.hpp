// Decides whether the engine looks for more packets for a while before it sleeps.
//
// To be woken costs more than handling many packets, for the sender, too. So after much data, which
// rarely comes alone, the engine lingers. If nothing comes, it does not linger the next time; after
// each further time in vain it leaves out twice as many times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ipoib/monotonic_clock.hpp"

namespace softib::transport {

class Linger {
 public:
  /// The longest time to linger.
  static constexpr ipoib::Duration kTime = std::chrono::microseconds(20);
  /// The number of bytes after which the engine lingers.
  static constexpr std::size_t kBytes = 1U << 14;
  static constexpr std::uint32_t kMostLeftOut = 1023;

  void handled(std::size_t bytes) { bytes_ += bytes; }
  /// To call when there are no more packets. Calls `drain`, which returns how many bytes it has
  /// handled, until there are some, or the time is over, by `clock`. Returns whether there were.
  template <class Drain, class Clock = ipoib::TimePoint (*)()>
  [[nodiscard]] bool linger(Drain drain, Clock clock = &ipoib::monotonic_now) {
    if (!begin()) return false;
    const auto until = clock() + kTime;
    do handled(drain());
    while (bytes_ == 0 && clock() < until);
    end();
    return bytes_ != 0;
  }

 private:
  [[nodiscard]] bool begin() {
    if (std::exchange(bytes_, 0) < kBytes) return false;
    if (to_leave_out_ == 0) return true;
    --to_leave_out_;
    return false;
  }
  void end() {
    in_vain_ = bytes_ != 0 ? 0 : std::min(2 * in_vain_ + 1, kMostLeftOut);
    to_leave_out_ = in_vain_;
  }

  std::size_t bytes_ = 0;      ///< handled since it lingered
  std::uint32_t in_vain_ = 0;  ///< how often it was left out last time
  std::uint32_t to_leave_out_ = 0;
};

}  // namespace softib::transport
