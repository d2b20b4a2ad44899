#include "softib/core/adaptive_mutex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softib {
namespace {

/// How often a thread looks before it sleeps: for some microseconds.
constexpr unsigned kLooks = 100;

// What futex(2) takes.
static_assert(sizeof(std::atomic<int>) == 4 && std::atomic<int>::is_always_lock_free);

/// Lets the other thread of the processor's core work meanwhile.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void AdaptiveMutex::wait() {
  for (unsigned i = 0; i < kLooks; ++i) {
    pause();
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
  }
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    (void)::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, nullptr);
  }
}

/// Another thread may have destroyed the mutex: then there is nobody to wake (futex(2)).
void AdaptiveMutex::wake() { (void)::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1); }

}  // namespace softib
