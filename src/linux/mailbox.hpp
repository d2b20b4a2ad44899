// A bounded message queue to a thread, which it wakes through an eventfd.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "linux/wake_up.hpp"

namespace ipoib::linux {

/// A queue of messages: any thread posts, one thread drains. It is not for the data path.
template <class Message>
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  /// Returns false when the mailbox is full; `message` is then unchanged.
  [[nodiscard]] bool post(Message&& message) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= capacity_) return false;
      queue_.push_back(std::move(message));
      waiting_.store(true, std::memory_order_release);
      if (queue_.size() > 1) return true;  // the first message has woken the receiver
    }
    wake_up_.signal();
    return true;
  }

  /// Replaces the contents of `out` by all messages in order of arrival; reuses its memory.
  void drain(std::vector<Message>& out) {
    out.clear();
    wake_up_.clear();
    const std::lock_guard lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    out.swap(queue_);
  }
  /// Whether messages wait; costs neither a system call nor a lock.
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

}  // namespace ipoib::linux
