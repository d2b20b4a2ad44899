// Memory that nobody may use at present, for the address sanitizer, which knows only what malloc() and
// the compiler manage. Without the sanitizer these functions do nothing.
#pragma once

#include <cstddef>

#ifdef __has_feature  // of clang
#if __has_feature(address_sanitizer)
#define IPOIB_ADDRESS_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__  // of gcc
#define IPOIB_ADDRESS_SANITIZER
#endif

#ifdef IPOIB_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace ipoib {

#ifdef IPOIB_ADDRESS_SANITIZER
/// Bytes to leave unused after each object of an array, where the sanitizer finds an overrun.
inline constexpr std::size_t kRedZone = 64;
inline void poison(const void* memory, std::size_t size) {
  __asan_poison_memory_region(memory, size);
}
inline void unpoison(const void* memory, std::size_t size) {
  __asan_unpoison_memory_region(memory, size);
}
#else
inline constexpr std::size_t kRedZone = 0;
inline void poison(const void* /*memory*/, std::size_t /*size*/) {}
inline void unpoison(const void* /*memory*/, std::size_t /*size*/) {}
#endif

}  // namespace ipoib
