// Deadlines in order. What has a deadline derives from Timed, owns nothing else for it, and leaves
// the queue by itself when it dies; so nothing fires on a dead object, and nothing is cancelled.
//
// Hierarchical timing wheels (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987,
// scheme 7), one for each digit of a time in nanoseconds to the base 64. A deadline lies in the
// slot that one of its digits names, of the lowest wheel that reaches so far ahead. When the time
// for a slot has come, what is in it is spread over lower wheels; the slots of the lowest one are
// single nanoseconds. So nothing fires early, or late by the width of a slot.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib::link {

using TimedHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class TimedTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Timed : public TimedHook {
 public:
  [[nodiscard]] TimePoint armed_for() const { return deadline_; }

 private:
  friend class TimerWheels;
  TimePoint deadline_ = kNever;
};

/// Of any objects; in one thread, whose time does not go back.
class TimerWheels {
 public:
  void arm(Timed& timed, TimePoint deadline);
  static void disarm(Timed& timed);
  [[nodiscard]] TimePoint next() const;
  [[nodiscard]] Timed* pop_due(TimePoint now);

 private:
  static constexpr unsigned kDigitBits = 6;
  static constexpr std::size_t kSlots = 1 << kDigitBits;  ///< of one wheel: bits of occupied_
  static constexpr std::size_t kWheels = 11;              ///< digits of a time
  static constexpr std::size_t kNone = kWheels * kSlots;
  static constexpr std::size_t kSpreadAtOnce = 256;

  struct Slot {
    boost::intrusive::list<Timed, boost::intrusive::base_hook<TimedHook>,
                           boost::intrusive::constant_time_size<false>>
        armed;
    /// No deadline in it is earlier; it is the first one's as long as that one stays.
    TimePoint earliest = kNever;
  };

  [[nodiscard]] std::size_t first() const;
  [[nodiscard]] std::size_t first_of(std::size_t wheel) const;
  [[nodiscard]] static std::uint64_t digits(TimePoint time, std::size_t wheel) {
    return static_cast<std::uint64_t>(time.time_since_epoch().count()) >> wheel * kDigitBits;
  }
  void insert(Timed& timed);
  [[nodiscard]] bool spread(std::size_t slot);

  /// Reckoned from here; not later than now, nor than any deadline that was ahead when it was set.
  TimePoint begin_{};
  // What has become empty, of which the queue is not told, is forgotten where it is come across.
  mutable std::size_t first_ = kNone;  ///< the slot of the first deadline; kNone: look for it
  mutable std::uint32_t turning_ = 0;  ///< wheels that are not empty
  mutable std::array<std::uint64_t, kWheels> occupied_{};  ///< their slots that are not
  std::array<Slot, kWheels * kSlots> slots_;
};

/// Of one kind of object. Each operation takes constant time, in the mean: an object is moved at
/// most once for each digit of the time for which it is armed, and three times in practice.
template <class T>
class TimerQueue {
 public:
  /// kNever disarms. A time that has passed is due at once.
  void arm(T& object, TimePoint deadline) { wheels_.arm(object, deadline); }
  void disarm(T& object) { wheels_.disarm(object); }
  /// The first deadline, or an earlier one, for which an object was armed that no longer is; such a
  /// one is forgotten when its time has come.
  [[nodiscard]] TimePoint next() const { return wheels_.next(); }
  /// The first object that is due, which is disarmed by this; null when none is, or when so many
  /// lie in a slot whose time has come that the rest is for the next call: next() is not later.
  [[nodiscard]] T* pop_due(TimePoint now) { return static_cast<T*>(wheels_.pop_due(now)); }

 private:
  TimerWheels wheels_;
};

}  // namespace ipoib::link
