// Whether a program that has just taken completions is going to poll again at once.
//
// Programs that move data as fast as they can do; others look at their own memory next, or compute.
// It is likely to do what it did the last times. A program that is believed and then does not poll
// is believed again only after twice as many polls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"

namespace softib::verbs {

class PollHabit {
 public:
  /// What counts as at once.
  static constexpr ipoib::Duration kSoon = std::chrono::microseconds(2);
  /// So many times in a row make it likely.
  static constexpr std::uint32_t kFewest = 16;
  static constexpr std::uint32_t kMost = 1U << 16;

  [[nodiscard]] bool polls_on() const { return in_a_row_ >= needed_; }
  // The program has polled, and found no completions, or some. Need not be called while polls_on().
  void on_empty_poll(ipoib::TimePoint now) {
    if (completed_at_ == ipoib::kNever) return;
    in_a_row_ = now - completed_at_ <= kSoon ? in_a_row_ + 1 : 0;
    completed_at_ = ipoib::kNever;
  }
  void on_completions(ipoib::TimePoint now) {
    on_empty_poll(now);
    completed_at_ = now;
  }
  /// It has not polled for a long time.
  void on_absence() {
    if (polls_on()) needed_ = std::min(needed_ * 2, kMost);
    in_a_row_ = 0;
  }

 private:
  std::uint32_t in_a_row_ = 0;
  std::uint32_t needed_ = kFewest;
  ipoib::TimePoint completed_at_ = ipoib::kNever;
};

}  // namespace softib::verbs
