// Predicts whether a program is going to poll at once after its last call.
//
// Programs that move data as fast as they can do so; others look at their own memory next, or
// compute. A program is likely to do what it did the last times. One of which polls were predicted
// in vain is believed again only after twice as many polls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ipoib/time.hpp"

namespace softib::verbs {

class PollHabit {
 public:
  /// The number of times in a row that makes a poll likely.
  static constexpr std::uint32_t kFewest = 16;
  static constexpr std::uint32_t kMost = 1U << 16;

  /// `soon` is the time within which a poll counts as "at once".
  explicit PollHabit(ipoib::Duration soon) : soon_(soon) {}

  [[nodiscard]] bool polls_on() const { return in_a_row_ >= needed_; }
  /// The program has made a call after which it may poll at once. Not needed while polls_on().
  void expect_poll(ipoib::TimePoint now) {
    begin_call(now);
    expected_since_ = now;
  }
  /// The program has polled.
  void on_poll(ipoib::TimePoint now) {
    begin_call(now);
    if (std::exchange(expected_since_, ipoib::kNever) != ipoib::kNever) ++in_a_row_;
  }
  // The program begins another call, during which it cannot poll.
  void begin_call(ipoib::TimePoint now) {
    if (expected_since_ == ipoib::kNever || now - expected_since_ <= soon_) return;
    in_a_row_ = 0;
    expected_since_ = ipoib::kNever;
  }
  void end_call(ipoib::TimePoint now) {
    if (expected_since_ != ipoib::kNever) expected_since_ = now;
  }
  /// The program has not polled for a long time.
  void on_absence() {
    if (polls_on()) needed_ = std::min(needed_ * 2, kMost);
    in_a_row_ = 0;
  }

 private:
  ipoib::Duration soon_;
  std::uint32_t in_a_row_ = 0;
  std::uint32_t needed_ = kFewest;
  ipoib::TimePoint expected_since_ = ipoib::kNever;
};

}  // namespace softib::verbs
