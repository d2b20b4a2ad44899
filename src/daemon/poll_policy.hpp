// What a thread does that has found nothing to do: look again, or sleep until it is woken.
//
// To be woken takes longer than most answers do, above all where the processor went to sleep as
// well; to look again takes the processor from whoever else has something to do. So, by mode:
//
//   event     sleeps at once
//   busy      looks again, always
//   adaptive  looks again for a while, and sleeps then. The while grows when work came within
//             kLongestSpin, found awake or asleep, and shrinks, more slowly, when it came later:
//             one wait in eight that is worth it keeps it up. There is none while threads wait for
//             processors, which shows in how long this one had to.
//
// A value: time is told, and so is the delay.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"

namespace ipoib::daemon {

enum class PollMode : std::uint8_t { event, busy, adaptive };

class PollPolicy {
 public:
  enum class Next : std::uint8_t { look, sleep };
  struct Counters {
    std::uint64_t sleeps = 0;
    std::uint64_t spins = 0;          ///< waits that ended awake, with work; not counted when busy
    std::uint64_t spins_in_vain = 0;  ///< that ended in sleep
  };

  /// What it begins with; it ends at half of it.
  static constexpr Duration kShortestSpin = std::chrono::microseconds(4);
  static constexpr Duration kLongestSpin = std::chrono::microseconds(100);
  static constexpr Duration kDelayPeriod = std::chrono::milliseconds(5);
  /// Of the time, that a thread waits for a processor when these are taken.
  static constexpr int kCrowdedShare = 16;

  explicit PollPolicy(PollMode mode) : mode_(mode) {}

  /// There was something to do.
  void on_work(TimePoint now);
  /// There was nothing. Who is told to sleep may wake up for nothing, and asks again.
  [[nodiscard]] Next on_nothing(TimePoint now);
  /// on_delay() is to be called before on_nothing().
  [[nodiscard]] bool wants_delay(TimePoint now) const {
    return mode_ == PollMode::adaptive && now >= told_ + kDelayPeriod;
  }
  /// How long the thread has waited for a processor in all its life. Nothing: nobody knows, so it
  /// is not to spin.
  void on_delay(std::optional<Duration> total, TimePoint now);

  [[nodiscard]] Duration budget() const { return budget_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  enum class Wait : std::uint8_t { none, awake, asleep };
  [[nodiscard]] bool may_spin(TimePoint now) const;

  PollMode mode_;
  Wait wait_ = Wait::none;
  TimePoint since_{};  ///< of the wait
  Duration budget_{};
  bool crowded_ = false;
  TimePoint told_{};
  Duration delay_{};
  Counters counters_;
};

}  // namespace ipoib::daemon
