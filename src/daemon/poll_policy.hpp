// What a thread does that has found nothing to do: look again, or sleep until it is woken.
//
// To be woken takes longer than most answers do, above all where the processor went to sleep as
// well; to look again takes the processor from whoever else has something to do. So, by mode:
//
//   event     sleeps at once
//   busy      looks again, always
//   adaptive  looks again for kSpinPerWork times as long as its work took. So it polls busily under
//             load, for a moment after a packet or two, and what it takes of a processor stays in
//             proportion to what it does. Where packets keep coming, it goes on until the next one
//             is overdue by what they have shown, as long as nobody else has a use for its
//             processor. It sleeps then.
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
  /// A look that takes longer, and kLooks times as long as the shortest one, has waited for a
  /// processor, and counts as one of this length: it has taken nothing from anybody, but whoever
  /// else runs there may need it for long.
  static constexpr Duration kLongestLook = std::chrono::microseconds(20);
  static constexpr int kLooks = 4;
  /// Packets keep coming when the last kSteady pauses between turns with work were no longer.
  static constexpr Duration kSteadyPause = std::chrono::milliseconds(3);
  static constexpr int kSteady = 8;
  /// Others have a use for its processor when they had more than such a part of a wait.
  static constexpr int kOthersShare = 4;

  explicit PollPolicy(PollMode mode) : mode_(mode) {}

  /// The turn that began at `now` had something to do.
  void on_work(TimePoint now);
  /// It had nothing. Who is told to sleep may wake up for nothing, and asks again.
  [[nodiscard]] Next on_nothing(TimePoint now);

  /// For how long it may look for more, whoever else waits for the processor.
  [[nodiscard]] Duration budget() const { return budget_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  enum class Turn : std::uint8_t { work, look, sleep };
  /// Another turn begins: accounts for the one before.
  void begin(TimePoint now);
  /// There is more to come, and nobody is in need of the processor.
  [[nodiscard]] bool may_wait(TimePoint now) const;

  PollMode mode_;
  Turn last_ = Turn::sleep;
  TimePoint began_{};  ///< the last one
  Duration budget_{};
  Duration shortest_look_ = Duration::max() / kLooks;
  TimePoint worked_until_{};
  Duration others_{};     ///< had the processor since then
  int short_pauses_ = 0;  ///< in a row, kSteady at most
  Counters counters_;
};

}  // namespace ipoib::daemon
