#include "link/cache/timer_queue.hpp"

#include <algorithm>
#include <bit>

namespace ipoib::link::cache {

void TimerWheels::arm(Timed& timed, TimePoint deadline) {
  if (timed.deadline_ == deadline) return;
  disarm(timed);
  timed.deadline_ = deadline;
  if (deadline != kNever) insert(timed);
}

void TimerWheels::disarm(Timed& timed) {
  if (timed.deadline_ == kNever) return;
  timed.unlink();
  timed.deadline_ = kNever;
}

TimePoint TimerWheels::next() const {
  const std::size_t at = first();
  return at == kNone ? kNever : slots_[at].earliest;
}

Timed* TimerWheels::pop_due(TimePoint now) {
  for (;;) {
    const std::size_t at = first();
    const TimePoint earliest = at == kNone ? kNever : slots_[at].earliest;
    begin_ = std::max(begin_, std::min(now, earliest));
    if (earliest > now || at == kNone) return nullptr;
    Timed& due = slots_[at].armed.front();
    const bool is_alone = &due == &slots_[at].armed.back();
    if (at < kSlots || (is_alone && due.deadline_ == earliest)) {
      disarm(due);
      return &due;
    }
    // The caller can handle packets in between; next() says that more is due.
    if (!cascade(at)) return nullptr;
  }
}

/// Moves the objects of a slot to lower wheels, which reach far enough, since `begin_` is in this
/// slot. Takes them from both ends, so that two cache misses overlap. Returns false if some are
/// left.
bool TimerWheels::cascade(std::size_t slot) {
  auto& armed = slots_[slot].armed;
  for (std::size_t count = 0; !armed.empty(); count += 2) {
    if (count >= kCascadeLimit) return false;
    Timed& front = armed.front();
    Timed& back = armed.back();
    armed.pop_front();
    insert(front);
    if (&front == &back) break;
    armed.pop_back();
    insert(back);
  }
  return true;
}

void TimerWheels::insert(Timed& timed) {
  const TimePoint time = std::max(timed.deadline_, begin_);
  const auto ahead = static_cast<std::uint64_t>((time - begin_).count());
  std::size_t wheel = (std::bit_width(ahead | 1) - 1U) / kDigitBits;
  // A deadline a whole turn ahead would get the slot that begin_ is in, so it goes into the next
  // wheel.
  if (digits(time, wheel) - digits(begin_, wheel) == kSlots) ++wheel;
  const std::size_t digit = digits(time, wheel) % kSlots;
  const std::size_t at = wheel * kSlots + digit;
  Slot& slot = slots_[at];
  if (slot.armed.empty()) {
    slot.earliest = kNever;
    if (at == first_) first_ = kNone;
  }
  slot.earliest = std::min(slot.earliest, timed.deadline_);
  slot.armed.push_back(timed);
  occupied_[wheel] |= std::uint64_t{1} << digit;
  turning_ |= 1U << wheel;
  if (first_ != kNone && slot.earliest < slots_[first_].earliest) first_ = at;
}

/// The first slot of all wheels: a deadline that was far ahead when it was armed may be the first
/// by now.
std::size_t TimerWheels::first() const {
  if (first_ != kNone && !slots_[first_].armed.empty()) return first_;
  first_ = kNone;
  for (std::uint32_t rest = turning_; rest != 0; rest &= rest - 1) {
    const std::size_t at = first_of(static_cast<std::size_t>(std::countr_zero(rest)));
    if (at == kNone) continue;
    if (first_ == kNone || slots_[at].earliest < slots_[first_].earliest) first_ = at;
  }
  return first_;
}

/// The first non-empty slot of a wheel, from that of begin_ on.
std::size_t TimerWheels::first_of(std::size_t wheel) const {
  const auto from = static_cast<unsigned>(digits(begin_, wheel) % kSlots);
  while (occupied_[wheel] != 0) {
    const auto ahead = std::countr_zero(std::rotr(occupied_[wheel], static_cast<int>(from)));
    const std::size_t digit = (from + static_cast<unsigned>(ahead)) % kSlots;
    const std::size_t at = wheel * kSlots + digit;
    if (!slots_[at].armed.empty()) return at;
    occupied_[wheel] &= ~(std::uint64_t{1} << digit);
  }
  turning_ &= ~(1U << wheel);
  return kNone;
}

}  // namespace ipoib::link::cache
