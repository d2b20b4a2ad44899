// Events behind a descriptor, as a completion channel or a context has them: the descriptor is
// readable while an event waits, and taking one is a read of it. So epoll, O_NONBLOCK and signals
// behave as they do on the kernel's, without any help of ours.
//
// The descriptor is an eventfd in semaphore mode that counts the events of the queue. A reader
// first takes its count, then the event; one whose event has been withdrawn in between reads again.
// A count without an event is also how another process rings: something came that may make one. A
// process may ring without end, so a descriptor that is O_NONBLOCK is read once for each answer.
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

/// Events that nobody takes; what comes on top is lost.
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

  /// Takes the oldest event, and waits for one unless the descriptor is O_NONBLOCK; `taken` sees it
  /// while nobody can withdraw it. `rung` is called when the descriptor has a count that no event
  /// stands behind, and may push some. False: errno says why; EAGAIN: there is no event.
  template <class Taken, class Rung>
  bool take(Taken taken, Rung rung) {
    for (;;) {
      std::uint64_t count = 0;
      if (::read(fd_.get(), &count, sizeof count) != sizeof count) return false;
      std::unique_lock lock(mutex_);
      if (events_.empty()) {
        lock.unlock();
        rung();
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

  /// Withdraws the events of an object that goes.
  template <class Which>
  void withdraw(Which which) {
    const std::lock_guard lock(mutex_);
    for (auto count = std::erase_if(events_, which); count != 0; --count) {
      // Must not block: a reader may hold the event's count already. (On a kernel that cannot do
      // this the count stays, and the next reader finds nothing behind it.)
      std::uint64_t one = 0;
      const iovec to{&one, sizeof one};
      (void)::preadv2(fd_.get(), &to, 1, -1, RWF_NOWAIT);
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
