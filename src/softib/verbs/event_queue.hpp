// The events of a completion channel or a context, with a descriptor that is readable while an
// event is queued. Taking an event reads the descriptor, so epoll, O_NONBLOCK and signals behave as
// with the descriptors of the kernel.
//
// The descriptor is an eventfd in semaphore mode that counts the events of the queue. A reader
// first reads the descriptor, then takes the event; if the event has been withdrawn in between, it
// reads again. Another process also writes to the descriptor, to announce a packet that may cause
// an event. As it may write without end, take() gives up after one read without an event if the
// descriptor is O_NONBLOCK.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>

#include "ipoib/file_descriptor.hpp"

namespace softib::verbs {

/// Bound of the queue; further events are lost.
inline constexpr std::size_t kMaxQueuedEvents = 1U << 16;

template <class Event>
class EventQueue {
 public:
  EventQueue() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
    if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  [[nodiscard]] int fd() const { return fd_.get(); }

  void push(const Event& event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() == kMaxQueuedEvents) return;
    events_.push_back(event);
    (void)::eventfd_write(fd_.get(), 1);
  }

  /// Takes the oldest event; waits for one unless the descriptor is O_NONBLOCK. Calls `taken` with
  /// it while withdraw() is locked out. Calls `no_event` if the descriptor was readable without an
  /// event; that call may push events. On failure returns false and sets errno; EAGAIN: no event.
  template <class Taken, class NoEvent>
  bool take(Taken taken, NoEvent no_event) {
    for (;;) {
      std::uint64_t count = 0;
      if (::read(fd_.get(), &count, sizeof count) != sizeof count) return false;
      std::unique_lock lock(mutex_);
      if (events_.empty()) {
        lock.unlock();
        no_event();
        if (is_empty() && (::fcntl(fd_.get(), F_GETFL) & O_NONBLOCK) != 0) {
          errno = EAGAIN;
          return false;
        }
        continue;
      }
      const Event event = events_.front();
      events_.pop_front();
      taken(event);
      return true;
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
      // Must not block: a reader may have read the count of the event already. (Where the kernel
      // does not support this, the count stays, and the next reader finds no event.)
      std::uint64_t one = 0;
      const iovec to{&one, sizeof one};
      (void)!::preadv2(fd_.get(), &to, 1, -1, RWF_NOWAIT);
    }
  }

 private:
  [[nodiscard]] bool is_empty() {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }

  ipoib::FileDescriptor fd_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace softib::verbs
