// Tells the thread sanitizer in which order a ring passes memory on. It does not know that the two
// mappings of a ring, when both are in one process, as in tests, are of one memory.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define SOFTIB_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOFTIB_THREAD_SANITIZER
#endif
#endif

#ifdef SOFTIB_THREAD_SANITIZER
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace softib::transport {

#ifdef SOFTIB_THREAD_SANITIZER
inline char all_rings;  ///< any address that both sides know
inline void before_publishing() { __tsan_release(&all_rings); }
inline void after_reading() { __tsan_acquire(&all_rings); }
#else
inline void before_publishing() {}
inline void after_reading() {}
#endif

}  // namespace softib::transport
