// What a thread does that has found nothing to do: look again, or sleep until it is woken.
//
// To be woken takes longer than most answers do, above all where the processor went to sleep as
// well; to look again takes the processor from whoever else has something to do. So, by mode:
//
//   event     sleeps at once
//   busy      looks again, always
//   adaptive  looks again for kSpinPerWork times as long as its work took, and sleeps then. So it
//             polls busily under load, for a moment after a packet or two, and what it takes of a
//             processor stays in proportion to what it does.
//
// A value: time is told.
#pragma once

#include <cstdint>

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

  static constexpr int kSpinPerWork = 8;
  /// Whatever it has worked.
  static constexpr Duration kLongestSpin = std::chrono::milliseconds(1);
  /// A look that takes longer has waited for a processor, and counts as one of this length: it has
  /// taken nothing from anybody, but whoever else runs there may need it for long.
  static constexpr Duration kLongestLook = std::chrono::microseconds(20);

  explicit PollPolicy(PollMode mode) : mode_(mode) {}

  /// The turn that began at `now` had something to do.
  void on_work(TimePoint now);
  /// It had nothing. Who is told to sleep may wake up for nothing, and asks again.
  [[nodiscard]] Next on_nothing(TimePoint now);

  /// For how long it may look for more.
  [[nodiscard]] Duration budget() const { return budget_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  enum class Turn : std::uint8_t { work, look, sleep };
  /// Another turn begins: accounts for the one before.
  void begin(TimePoint now);

  PollMode mode_;
  Turn last_ = Turn::sleep;
  TimePoint began_{};  ///< the last one
  Duration budget_{};
  Counters counters_;
};

}  // namespace ipoib::daemon
