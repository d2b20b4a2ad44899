// Limits how long a sender waits for a receiver: for room in its ring, or until it has finished
// closing the connection.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "softib/transport/ring_memory.hpp"

namespace softib::transport {

/// The longest wait at once (the head-of-queue lifetime of IBA 18.2.5.4); all waits take at most
/// one part in kPatienceShare of the time.
inline constexpr std::chrono::milliseconds kMostPatience{200};
inline constexpr int kPatienceShare = 100;
/// The time added for each half of a ring that the receiver takes, so one that takes 26 MB/s or
/// more is always waited for.
inline constexpr std::chrono::milliseconds kPatienceForHalfRing{10};
/// The shortest wait that begins.
inline constexpr std::chrono::milliseconds kLeastPatience{1};

/// The time that a sender may still wait for a receiver. One that is always slow must not slow down
/// what is sent to others: waiting uses up the patience with it, which comes back slowly, or when
/// it takes what was sent.
class Patience {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// The longest wait that may begin now.
  [[nodiscard]] std::chrono::nanoseconds left(TimePoint now) const {
    return std::min<std::chrono::nanoseconds>(kMostPatience, left_ + (now - at_) / kPatienceShare);
  }
  /// A wait has taken place, perhaps of several threads at a time.
  void spend(TimePoint begin, TimePoint end) {
    begin = std::max(begin, at_);
    if (end <= begin) return;
    left_ = std::max(left(begin) - (end - begin), std::chrono::nanoseconds::zero());
    at_ = end;
  }
  /// The receiver has taken `bytes` of its ring, at most all.
  void earn(std::uint64_t bytes) {
    left_ += std::chrono::nanoseconds(kPatienceForHalfRing) * bytes / (kRingBytes / 2);
    left_ = std::min<std::chrono::nanoseconds>(left_, kMostPatience);
  }

 private:
  std::chrono::nanoseconds left_ = kMostPatience;  ///< at `at_`
  TimePoint at_{};
};

}  // namespace softib::transport
