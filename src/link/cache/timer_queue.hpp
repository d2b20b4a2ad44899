// A queue of objects by their deadlines. An object that has a deadline derives from Timed; its
// destructor takes it out of the queue, so no timer fires for a dead object.
//
// Why: each neighbour has a deadline, which changes with its state; a heap or a std::set would cost
// O(log n) for each change. These are hierarchical timing wheels (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", 1987, scheme 7), one wheel for each base-64 digit of a time in
// nanoseconds. A deadline goes into the lowest wheel that reaches so far ahead, and there into the
// slot of its digit. When the time of a slot has come, its objects move to lower wheels. A slot of
// the lowest wheel is one nanosecond wide, so no deadline is early, or late by a slot's width.
// Cost: O(1) amortised: an object moves at most once for each digit, in practice three times. About
// 17 KB for each queue, two pointers and a time for each object.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib::link::cache {

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

/// The untyped part of TimerQueue. For one thread, whose time never goes back.
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
  static constexpr std::size_t kCascadeLimit = 256;  ///< objects that one call moves down

  struct Slot {
    boost::intrusive::list<Timed, boost::intrusive::base_hook<TimedHook>,
                           boost::intrusive::constant_time_size<false>>
        armed;
    /// Lower bound of the deadlines in the slot; exact unless the object with the earliest one has
    /// left.
    TimePoint earliest = kNever;
  };

  [[nodiscard]] std::size_t first() const;
  [[nodiscard]] std::size_t first_of(std::size_t wheel) const;
  [[nodiscard]] static std::uint64_t digits(TimePoint time, std::size_t wheel) {
    return static_cast<std::uint64_t>(time.time_since_epoch().count()) >> wheel * kDigitBits;
  }
  void insert(Timed& timed);
  [[nodiscard]] bool cascade(std::size_t slot);

  /// The time that the wheels count from; not later than now, nor than any deadline that had not
  /// passed when it was armed.
  TimePoint begin_{};
  // Objects leave their slot without updating these; they are corrected at an empty slot.
  mutable std::size_t first_ = kNone;  ///< the slot of the first deadline; kNone: unknown
  mutable std::uint32_t turning_ = 0;  ///< bit mask of the wheels that are not empty
  mutable std::array<std::uint64_t, kWheels> occupied_{};  ///< bit masks of their non-empty slots
  std::array<Slot, kWheels * kSlots> slots_;
};

template <class T>
class TimerQueue {
 public:
  /// Sets the deadline of an object; kNever disarms. A deadline that has passed is due at once.
  void arm(T& object, TimePoint deadline) { wheels_.arm(object, deadline); }
  /// The first deadline, or an earlier one that was armed and is armed no longer; pop_due() at that
  /// time removes it.
  [[nodiscard]] TimePoint next() const { return wheels_.next(); }
  /// Disarms and returns the first object that is due; null if none is. Returns null, too, if a
  /// slot holds so many objects that one call does not finish it; then next() is not later than
  /// `now`.
  [[nodiscard]] T* pop_due(TimePoint now) { return static_cast<T*>(wheels_.pop_due(now)); }

 private:
  TimerWheels wheels_;
};

}  // namespace ipoib::link::cache
