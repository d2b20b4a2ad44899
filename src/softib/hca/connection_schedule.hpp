// Which connections are to be served, in which order, and when.
//
// Active ones are served next. Those that are too many at once are postponed, so that others can
// use the HCA meanwhile, and those whose receiver has no room wait for it in turn; resume() makes
// them active again. So does a timer when it expires.
#pragma once

#include <deque>
#include <set>
#include <utility>

#include "softib/hca/limits.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/room_queues.hpp"

namespace softib::hca {

class ConnectionSchedule {
 public:
  /// Unless it is active or postponed.
  void activate(QueuePair& qp) {
    if (!std::exchange(qp.connection().is_active, true)) active_.push_back(&qp);
  }
  [[nodiscard]] bool has_active() const { return !active_.empty(); }
  /// The one that has been active for the longest time. Requires has_active().
  [[nodiscard]] QueuePair& take() {
    QueuePair& qp = *active_.front();
    active_.pop_front();
    qp.connection().is_active = false;
    return qp;
  }

  void postpone_active() {
    if (active_.empty()) return;
    postponed_.insert(postponed_.end(), active_.begin(), active_.end());
    active_.clear();
  }

  /// Whether it may send: no other connection waits for room at its receiver, or it is the first.
  [[nodiscard]] bool admits(const QueuePair& qp) const { return waiting_.admits(qp); }
  void wait_for_room(QueuePair& qp) { waiting_.wait(qp); }
  void stop_waiting(QueuePair& qp) {
    if (QueuePair* const next = waiting_.leave(qp)) activate(*next);
  }

  /// When to call resume(): now for postponed ones, soon for those that wait for room, or never.
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
    waiting_.for_each_first([this](QueuePair& qp) { activate(qp); });
  }

  /// Sets its timer, or does nothing if that expires earlier: a connection that is served too early
  /// sets it again.
  void set_timer(QueuePair& qp, ipoib::TimePoint when) {
    auto& scheduled = qp.connection().scheduled_at;
    if (when >= scheduled) return;
    if (scheduled != ipoib::kNever) timers_.erase({scheduled, &qp});
    timers_.insert({when, &qp});
    scheduled = when;
  }
  void expire(ipoib::TimePoint now) {
    while (!timers_.empty() && next_timer() <= now) {
      QueuePair& qp = *timers_.begin()->second;
      timers_.erase(timers_.begin());
      qp.connection().scheduled_at = ipoib::kNever;
      activate(qp);
    }
  }
  [[nodiscard]] ipoib::TimePoint next_timer() const {
    return timers_.empty() ? ipoib::kNever : timers_.begin()->first;
  }

  void remove(QueuePair& qp) {
    stop_waiting(qp);
    if (qp.connection().is_active) {
      std::erase(active_, &qp);
      std::erase(postponed_, &qp);
    }
    if (qp.connection().scheduled_at != ipoib::kNever) {
      timers_.erase({qp.connection().scheduled_at, &qp});
    }
  }

 private:
  std::deque<QueuePair*> active_;
  std::deque<QueuePair*> postponed_;
  RoomQueues waiting_;
  std::set<std::pair<ipoib::TimePoint, QueuePair*>> timers_;  ///< at most one of each connection
};

}  // namespace softib::hca
