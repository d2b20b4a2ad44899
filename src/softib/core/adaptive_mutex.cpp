#include "softib/core/adaptive_mutex.hpp"

namespace softib {
namespace {

/// How often a thread looks before it sleeps: for some microseconds.
constexpr unsigned kLooks = 100;

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
    state_.wait(kAwaited, std::memory_order_relaxed);
  }
}

}  // namespace softib
