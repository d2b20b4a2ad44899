// A mutex that threads on several processors hold for microseconds.
//
// Whoever finds it held looks again for a while before it sleeps: to be woken takes longer than
// what the holder does, above all in a virtual machine. Several of these are taken for each packet,
// so the usual case, that nobody holds it, is one inlined instruction; pthread_mutex_lock() and
// pthread_mutex_unlock() take 70.
#pragma once

#include <atomic>

namespace softib {

class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  bool try_lock() {
    int free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      wake();
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kHeld = 1;
  static constexpr int kAwaited = 2;  ///< held, and other threads may sleep

  void wait();
  void wake();

  std::atomic<int> state_ = kFree;
};

}  // namespace softib
