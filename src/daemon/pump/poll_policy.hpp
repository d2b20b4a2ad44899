// Decides what a thread does when it has found no work: poll again, or sleep until it is woken.
//
// Waking up takes longer than most peers take to respond, above all if the CPU was idle. Polling
// takes CPU time from other threads. So, by mode:
//
//   event     sleeps at once
//   busy      always polls
//   adaptive  polls for kSpinPerWork times as long as its work took, then sleeps. So it polls under
//             load, and its use of the CPU stays in proportion to its work. While packets keep
//             coming, it polls until the next one is overdue by the recent intervals, as long as
//             no other thread needs the CPU.
//
// Time is an argument.
#pragma once

#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib::daemon {

enum class PollMode : std::uint8_t { event, busy, adaptive };

class PollPolicy {
 public:
  enum class Next : std::uint8_t { poll, sleep };
  struct Counters {
    std::uint64_t sleeps = 0;
    std::uint64_t spins = 0;          ///< spins that found work; not counted when busy
    std::uint64_t spins_in_vain = 0;  ///< spins that ended in sleep
  };

  static constexpr int kSpinPerWork = 8;
  /// Upper limit of a spin by kSpinPerWork.
  static constexpr Duration kMaxSpin = std::chrono::milliseconds(1);
  /// A poll that takes longer than this and than kPollFactor times the shortest one was preempted,
  /// and counts as one of this length: the thread did not use the CPU, but another one did.
  static constexpr Duration kMaxPoll = std::chrono::microseconds(20);
  static constexpr int kPollFactor = 4;
  /// Packets keep coming if each of the last kSteady pauses between turns with work was this short.
  static constexpr Duration kSteadyPause = std::chrono::milliseconds(3);
  static constexpr int kSteady = 8;
  /// Other threads need the CPU if they had more than 1/kOthersShare of the pause.
  static constexpr int kOthersShare = 4;

  explicit PollPolicy(PollMode mode) : mode_(mode) {}
  void set_mode(PollMode mode) { mode_ = mode; }

  /// To be called for a turn that began at `now` and found work.
  void on_work(TimePoint now);
  /// To be called for a turn that found none. A thread that sleeps may wake up without work and ask
  /// again.
  [[nodiscard]] Next on_idle(TimePoint now);

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  enum class Turn : std::uint8_t { work, poll, sleep };
  /// Accounts for the turn before the one that begins at `now`.
  void begin(TimePoint now);
  /// Whether to poll on because packets keep coming and no other thread needs the CPU.
  [[nodiscard]] bool may_spin(TimePoint now) const;

  PollMode mode_;
  Turn last_ = Turn::sleep;
  TimePoint began_{};  ///< of the last turn
  Duration budget_{};  ///< for how long it may poll even if others need the CPU
  Duration shortest_poll_ = Duration::max() / kPollFactor;
  TimePoint worked_until_{};
  Duration others_{};     ///< CPU time of others since then
  int short_pauses_ = 0;  ///< in a row, up to kSteady
  Counters counters_;
};

}  // namespace ipoib::daemon
