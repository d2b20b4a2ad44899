// Whether a program is going to poll at once after what it has just done.
//
// Programs that move data as fast as they can do; others look at their own memory next, or compute.
// It is likely to do what it did the last times. A program that is believed and then does not poll
// is believed again only after twice as many polls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ipoib/time.hpp"

namespace softib::verbs {

class PollHabit {
 public:
  /// So many times in a row make it likely.
  static constexpr std::uint32_t kFewest = 16;
  static constexpr std::uint32_t kMost = 1U << 16;

  /// `soon`: within so much time is at once.
  explicit PollHabit(ipoib::Duration soon) : soon_(soon) {}

  [[nodiscard]] bool polls_on() const { return in_a_row_ >= needed_; }
  /// The program has done something after which it may poll at once. Not needed while polls_on().
  void expect_poll(ipoib::TimePoint now) {
    begin_call(now);
    expected_since_ = now;
  }
  /// The program has polled.
  void on_poll(ipoib::TimePoint now) {
    begin_call(now);
    if (std::exchange(expected_since_, ipoib::kNever) != ipoib::kNever) ++in_a_row_;
  }
  // Another call of the program, during which it cannot poll.
  void begin_call(ipoib::TimePoint now) {
    if (expected_since_ == ipoib::kNever || now - expected_since_ <= soon_) return;
    in_a_row_ = 0;
    expected_since_ = ipoib::kNever;
  }
  void end_call(ipoib::TimePoint now) {
    if (expected_since_ != ipoib::kNever) expected_since_ = now;
  }
  /// It has not polled for a long time.
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
