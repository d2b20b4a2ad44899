// Deadlines in order. What has a deadline derives from Timed, owns nothing else for it, and leaves
// the queue by itself when it dies; so nothing fires on a dead object, and nothing is cancelled.
#pragma once

#include <boost/intrusive/set.hpp>

#include "ipoib/time.hpp"

namespace ipoib::link {

using TimedHook =
    boost::intrusive::set_base_hook<boost::intrusive::tag<class TimedTag>,
                                    boost::intrusive::optimize_size<true>,
                                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Timed : public TimedHook {
 public:
  [[nodiscard]] TimePoint armed_for() const { return deadline_; }

 private:
  template <class T>
  friend class TimerQueue;
  TimePoint deadline_ = kNever;
};

/// Of one kind of object, in one thread. Each cost is logarithmic in the number that is armed.
template <class T>
class TimerQueue {
 public:
  /// kNever disarms.
  void arm(T& object, TimePoint deadline) {
    Timed& timed = object;
    if (timed.deadline_ == deadline) return;
    disarm(object);
    timed.deadline_ = deadline;
    if (deadline != kNever) queue_.insert(object);
  }
  void disarm(T& object) {
    Timed& timed = object;
    if (timed.deadline_ != kNever) queue_.erase(queue_.iterator_to(object));
    timed.deadline_ = kNever;
  }
  [[nodiscard]] TimePoint next() const {
    return queue_.empty() ? kNever : queue_.begin()->armed_for();
  }
  /// The first object that is due, which is disarmed by this; null when none is.
  [[nodiscard]] T* pop_due(TimePoint now) {
    if (queue_.empty() || next() > now) return nullptr;
    T& first = *queue_.begin();
    disarm(first);
    return &first;
  }

 private:
  struct Earlier {
    bool operator()(const Timed& a, const Timed& b) const { return a.armed_for() < b.armed_for(); }
  };
  boost::intrusive::multiset<T, boost::intrusive::base_hook<TimedHook>,
                             boost::intrusive::compare<Earlier>,
                             boost::intrusive::constant_time_size<false>>
      queue_;
};

}  // namespace ipoib::link
