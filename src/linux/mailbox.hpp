// Messages to a thread that sleeps in its event loop: a bounded queue with an eventfd beside it.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "linux/wake_up.hpp"

namespace ipoib::host {

/// Any thread posts, one thread drains. Nothing here is on the data path.
template <class Message>
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  /// False when the mailbox is full: the receiver is behind, and the message is the caller's again.
  [[nodiscard]] bool post(Message&& message) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= capacity_) return false;
      queue_.push_back(std::move(message));
      waiting_.store(true, std::memory_order_release);
      if (queue_.size() > 1) return true;  // the receiver has been woken for the first one
    }
    wake_up_.signal();
    return true;
  }

  /// Hands over everything in order of arrival; `out` is emptied first, and its memory reused.
  void drain(std::vector<Message>& out) {
    out.clear();
    wake_up_.clear();
    const std::lock_guard lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    out.swap(queue_);
  }
  /// Messages wait. Asked without a system call or a lock, by who is awake anyway.
  [[nodiscard]] bool has_messages() const { return waiting_.load(std::memory_order_acquire); }

  /// Readable while messages wait.
  [[nodiscard]] int descriptor() const { return wake_up_.descriptor(); }

 private:
  std::mutex mutex_;
  std::vector<Message> queue_;
  std::size_t capacity_;
  std::atomic<bool> waiting_ = false;
  WakeUp wake_up_;
};

}  // namespace ipoib::host
