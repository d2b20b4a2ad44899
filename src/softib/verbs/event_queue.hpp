// The events of a completion channel or a context, with a descriptor that is readable while an
// event is queued. Taking an event reads the descriptor, so epoll, O_NONBLOCK and signals behave as
// with the descriptors of the kernel.
//
// The descriptor is that of a WakeupSocket. The queue keeps one wakeup of its own in it while it
// has events, unless a reader is about to take one. Other processes also send wakeups, to announce
// packets that may cause an event. A reader for whom epoll tells edges (EPOLLET) learns of an event
// only by a wakeup that comes after it was told that there is none. So take() then leaves no
// wakeup.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "softib/core/no_cancellation.hpp"
#include "softib/transport/wakeup_socket.hpp"

namespace softib::verbs {

/// The most events in the queue; further ones are lost.
inline constexpr std::size_t kMaxQueuedEvents = 1U << 16;
/// Bound of the wakeups that take() reads without an event if the descriptor is O_NONBLOCK, since
/// others may send them without end.
inline constexpr int kMaxIdleWakeups = 8;

template <class Event>
class EventQueue {
 public:
  explicit EventQueue(transport::WakeupSocket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] const transport::WakeupSocket& socket() const { return socket_; }

  void push(const Event& event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() == kMaxQueuedEvents) return;
    events_.push_back(event);
    announce();
  }

  /// Takes the oldest event; waits for one unless the descriptor is O_NONBLOCK. Calls `taken` with
  /// it while withdraw() is locked out. Calls `woken` when another process may have sent a wakeup;
  /// that call may push events. On failure returns false and sets errno; EAGAIN: no event.
  template <class Taken, class Woken>
  bool take(Taken taken, Woken woken) {
    for (int idle = 0;;) {
      const auto wakeup = wait();
      if (wakeup == Wakeup::none) return false;
      if (must_call_woken(wakeup)) woken();
      const std::lock_guard lock(mutex_);
      --takers_;
      if (!events_.empty()) {
        const Event event = events_.front();
        events_.pop_front();
        announce();
        taken(event);
        return true;
      }
      announce();
      if ((::fcntl(fd(), F_GETFL) & O_NONBLOCK) != 0 && ++idle == kMaxIdleWakeups) {
        (void)socket_.wake();  // the edge after which the rest is read
        errno = EAGAIN;
        return false;
      }
    }
  }

  template <class Taken>
  bool take(Taken taken) {
    return take(taken, [] {});
  }

  /// Removes the events for which `which` is true: those of an object that is being destroyed.
  template <class Which>
  void withdraw(Which which) {
    const std::lock_guard lock(mutex_);
    (void)std::erase_if(events_, which);
    announce();
  }

 private:
  using Wakeup = transport::WakeupSocket::Wakeup;

  /// Makes the descriptor readable if there are events; if there are none, only wakeups of others
  /// make it readable. A taker that is about to look at the events needs no wakeup.
  void announce() {
    if (!events_.empty()) {
      if (takers_ == 0 && !is_announced_) is_announced_ = socket_.wake();
    } else if (is_announced_ && socket_.next() == Wakeup::own) {
      const auto taken = socket_.take(false);
      if (taken == Wakeup::own) is_announced_ = false;
      // Another thread was faster, and this wakeup came after its: some taker has to call `woken`.
      if (taken == Wakeup::other) has_other_ = true, (void)socket_.wake();
    }
  }

  [[nodiscard]] Wakeup wait() {
    const CancellationPoint here;
    return socket_.take(true);
  }

  /// The thread takes part in takers_ from here on. A wakeup without an event may be that of
  /// another process that pretends to be this one.
  [[nodiscard]] bool must_call_woken(Wakeup wakeup) {
    const std::lock_guard lock(mutex_);
    ++takers_;
    if (wakeup == Wakeup::own) is_announced_ = false;
    return wakeup == Wakeup::other || std::exchange(has_other_, false) || events_.empty();
  }

  transport::WakeupSocket socket_;
  std::mutex mutex_;
  std::deque<Event> events_;
  int takers_ = 0;             ///< threads that have taken a wakeup and will look at the events
  bool is_announced_ = false;  ///< by a wakeup in the socket
  bool has_other_ = false;     ///< a wakeup of another process was taken without calling `woken`
};

}  // namespace softib::verbs
