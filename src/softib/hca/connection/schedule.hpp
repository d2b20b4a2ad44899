// The schedule of connections: which are to be served, in which order, and when.
//
// Active ones are served next. Those that are too many at once are postponed, so that others can
// use the HCA meanwhile, and those whose receiver has no room wait for it in turn; resume() makes
// them active again. So does a timer when it expires.
#pragma once

#include <cassert>
#include <deque>
#include <set>
#include <utility>

#include "softib/hca/connection/room_queues.hpp"
#include "softib/hca/limits.hpp"

namespace softib::hca {

class ConnectionSchedule {
 public:
  /// Makes a connection active, unless it is active or postponed.
  void activate(ScheduleEntry& entry) {
    if (!std::exchange(entry.is_active, true)) active_.push_back(&entry);
  }
  [[nodiscard]] bool has_active() const { return !active_.empty(); }
  /// Takes the connection that has been active for the longest time. Requires has_active().
  [[nodiscard]] ScheduleEntry& take() {
    assert(has_active());
    ScheduleEntry& entry = *active_.front();
    active_.pop_front();
    entry.is_active = false;
    return entry;
  }

  void postpone_active() {
    if (active_.empty()) return;
    postponed_.insert(postponed_.end(), active_.begin(), active_.end());
    active_.clear();
  }

  /// Whether a connection may send: no other one waits for room at this receiver, or it is the
  /// first.
  [[nodiscard]] bool admits(const ScheduleEntry& entry, PeerProcess receiver) const {
    return waiting_.admits(entry, receiver);
  }
  void wait_for_room(ScheduleEntry& entry, PeerProcess receiver) { waiting_.wait(entry, receiver); }
  void stop_waiting(ScheduleEntry& entry) {
    if (ScheduleEntry* const next = waiting_.leave(entry)) activate(*next);
  }

  /// When to call resume(): now if there are postponed ones, soon if some wait for room, or never.
  [[nodiscard]] ipoib::TimePoint resume_at(ipoib::TimePoint now) const {
    if (!postponed_.empty()) return now;
    return waiting_.empty() ? ipoib::kNever : now + kRoomRetry;
  }
  /// Activates the postponed ones, and the first of those that wait for each receiver.
  void resume() {
    if (!postponed_.empty()) {
      active_.insert(active_.begin(), postponed_.begin(), postponed_.end());
      postponed_.clear();
    }
    waiting_.for_each_first([this](ScheduleEntry& entry) { activate(entry); });
  }

  /// Sets the timer of a connection. Does nothing if that expires earlier: a connection that is
  /// served too early sets it again.
  void set_timer(ScheduleEntry& entry, ipoib::TimePoint when) {
    auto& scheduled = entry.scheduled_at;
    if (when >= scheduled) return;
    if (scheduled != ipoib::kNever) timers_.erase({scheduled, &entry});
    timers_.insert({when, &entry});
    scheduled = when;
  }
  void expire(ipoib::TimePoint now) {
    while (!timers_.empty() && next_timer() <= now) {
      ScheduleEntry& entry = *timers_.begin()->second;
      timers_.erase(timers_.begin());
      entry.scheduled_at = ipoib::kNever;
      activate(entry);
    }
  }
  [[nodiscard]] ipoib::TimePoint next_timer() const {
    return timers_.empty() ? ipoib::kNever : timers_.begin()->first;
  }

  void remove(ScheduleEntry& entry) {
    stop_waiting(entry);
    if (entry.is_active) {
      std::erase(active_, &entry);
      std::erase(postponed_, &entry);
    }
    if (entry.scheduled_at != ipoib::kNever) {
      timers_.erase({entry.scheduled_at, &entry});
    }
  }

 private:
  std::deque<ScheduleEntry*> active_;
  std::deque<ScheduleEntry*> postponed_;
  RoomQueues waiting_;
  std::set<std::pair<ipoib::TimePoint, ScheduleEntry*>>
      timers_;  ///< at most one of each connection
};

}  // namespace softib::hca
