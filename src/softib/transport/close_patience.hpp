// How long a sender waits for a receiver that has begun to close the connection and not finished.
#pragma once

#include <algorithm>
#include <chrono>

namespace softib::transport {

/// At most so long at once, and one part in kCloseShare of the time.
inline constexpr std::chrono::milliseconds kCloseTimeout{200};
inline constexpr int kCloseShare = 100;

/// A receiver that always closes slowly must not slow the sender down: waiting uses up the patience
/// with it, which comes back slowly.
class ClosePatience {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// The longest wait that may begin now.
  [[nodiscard]] std::chrono::nanoseconds left(TimePoint now) const {
    return std::min<std::chrono::nanoseconds>(kCloseTimeout, left_ + (now - at_) / kCloseShare);
  }
  /// A wait has taken place.
  void spend(TimePoint begin, TimePoint end) {
    left_ = std::max(left(begin) - (end - begin), std::chrono::nanoseconds::zero());
    at_ = end;
  }

 private:
  std::chrono::nanoseconds left_ = kCloseTimeout;  ///< at `at_`
  TimePoint at_{};
};

}  // namespace softib::transport
