// Copies to memory that another processor reads next.
//
// Ordinary stores first take each cache line away from the processor that has read it last, which
// takes long if the two share no cache. Streaming stores do not: they go to memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace softib {

/// Copies; others see stores that follow only after the copy, as with memcpy().
inline void streaming_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  const auto until_line = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  if (size >= until_line + kLine) {
    std::memcpy(to, from, until_line);
    to += until_line, from += until_line, size -= until_line;
    for (; size >= kLine; to += kLine, from += kLine, size -= kLine) {
      const auto* const source = reinterpret_cast<const __m128i*>(from);
      auto* const target = reinterpret_cast<__m128i*>(to);
      for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    _mm_sfence();
  }
#endif
  std::memcpy(to, from, size);
}

}  // namespace softib
