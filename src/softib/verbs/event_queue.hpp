// The events of a completion channel or a context, with a descriptor that is readable while an
// event is queued. Taking an event reads the descriptor, so epoll, O_NONBLOCK and signals behave as
// with the descriptors of the kernel.
//
// The descriptor is that of a WakeupSocket with a wakeup for each event, as far as there is room, and
// at least one while the queue has events. A reader first takes a wakeup, then the event; if the
// event has been withdrawn in between, it takes the next. Other processes also send wakeups, to
// announce packets that may cause an event. As they may do so without end, take() gives up after one
// wakeup without an event if the descriptor is O_NONBLOCK.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "softib/transport/wakeup_socket.hpp"

namespace softib::verbs {

/// Bound of the queue; further events are lost.
inline constexpr std::size_t kMaxQueuedEvents = 1U << 16;

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
    socket_.wake();
  }

  /// Takes the oldest event; waits for one unless the descriptor is O_NONBLOCK. Calls `taken` with
  /// it while withdraw() is locked out. Calls `woken` when another process may have sent a wakeup;
  /// that call may push events. On failure returns false and sets errno; EAGAIN: no event.
  template <class Taken, class Woken>
  bool take(Taken taken, Woken woken) {
    for (;;) {
      const auto wakeup = socket_.take(true);
      if (wakeup == Wakeup::none) return false;
      if (wakeup == Wakeup::other || is_empty()) woken();
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        const Event event = events_.front();
        events_.pop_front();
        // The wakeups of others may have left no room for that of the next event.
        if (!events_.empty() && !socket_.has_wakeup()) socket_.wake();
        taken(event);
        return true;
      }
      if ((::fcntl(fd(), F_GETFL) & O_NONBLOCK) != 0) {
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
    for (auto count = std::erase_if(events_, which); count != 0; --count) {
      // A reader may have taken the wakeup of the event already.
      const auto wakeup = socket_.take(false);
      if (wakeup == Wakeup::other) socket_.wake();  // take() will find no event and call `woken`
      if (wakeup != Wakeup::own) break;
    }
    if (!events_.empty() && !socket_.has_wakeup()) socket_.wake();
  }

 private:
  using Wakeup = transport::WakeupSocket::Wakeup;
  [[nodiscard]] bool is_empty() {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }

  transport::WakeupSocket socket_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace softib::verbs
