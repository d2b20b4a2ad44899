#include "softib/roce/crc32.hpp"

#include <libdeflate.h>

#include <array>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace softib::roce {
namespace {

using ipoib::ConstBytes;

std::uint32_t crc32_generic(std::uint32_t crc, ConstBytes bytes) {
  return bytes.empty() ? crc : libdeflate_crc32(crc, bytes.data(), bytes.size());
}

#ifdef __x86_64__

// Carry-less products of 512 bits at a time, which libdeflate has since version 1.19.

[[nodiscard]] [[gnu::target("avx512f,vpclmulqdq")]] inline __m512i load(const std::uint8_t* from) {
  return _mm512_loadu_si512(from);
}

/// The factors that move 16 bytes on by `bytes`: for their first half, which stands for x^64 more,
/// and for their last half. A factor is the remainder of 32 bits, in the half of 64 bits that
/// stands for x^32. It is shifted by one bit, because the bits of a product are in reverse order.
struct Distance {
  explicit consteval Distance(std::size_t bytes)
      : first(std::int64_t{power_of_x(8 * bytes + 32)} << 1),
        last(std::int64_t{power_of_x(8 * bytes - 32)} << 1) {}
  std::int64_t first;
  std::int64_t last;
};

/// Adds `vector`, moved on by the distance, to what is there.
[[nodiscard]] [[gnu::target("avx512f,vpclmulqdq")]] inline __m512i move_on(__m512i vector,
                                                                           Distance distance,
                                                                           __m512i there) {
  const auto by = _mm512_set4_epi64(distance.last, distance.first, distance.last, distance.first);
  const auto first = _mm512_clmulepi64_epi128(vector, by, 0x00);
  const auto last = _mm512_clmulepi64_epi128(vector, by, 0x11);
  return _mm512_xor_si512(_mm512_xor_si512(first, last), there);
}

/// Four vectors go over the bytes together, since a product takes several cycles. What is left of
/// them are 64 bytes that have the same CRC, with nothing before.
[[gnu::target("avx512f,vpclmulqdq")]] std::uint32_t crc32_avx512(std::uint32_t crc,
                                                                 ConstBytes bytes) {
  constexpr std::size_t kVector = sizeof(__m512i);
  constexpr std::size_t kStep = 4 * kVector;
  constexpr Distance kByVector(kVector);
  constexpr Distance kByStep(kStep);
  if (bytes.size() < 2 * kStep) return crc32_generic(crc, bytes);
  const auto* at = bytes.data();
  const auto* const end = at + bytes.size();
  // The register of a CRC is its complement.
  auto a = _mm512_xor_si512(load(at), _mm512_maskz_set1_epi32(1, static_cast<int>(~crc)));
  auto b = load(at + kVector);
  auto c = load(at + 2 * kVector);
  auto d = load(at + 3 * kVector);
  for (at += kStep; static_cast<std::size_t>(end - at) >= kStep; at += kStep) {
    a = move_on(a, kByStep, load(at));
    b = move_on(b, kByStep, load(at + kVector));
    c = move_on(c, kByStep, load(at + 2 * kVector));
    d = move_on(d, kByStep, load(at + 3 * kVector));
  }
  auto all = move_on(a, kByVector, b);
  all = move_on(all, kByVector, c);
  all = move_on(all, kByVector, d);
  std::array<std::uint8_t, kVector> left;
  _mm512_storeu_si512(left.data(), all);
  constexpr std::uint32_t kNothing = ~std::uint32_t{0};
  return crc32_generic(crc32_generic(kNothing, left), {at, end});
}

#endif

using Crc32 = std::uint32_t (*)(std::uint32_t, ConstBytes);

Crc32 fastest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0) {
    return crc32_avx512;
  }
#endif
  return crc32_generic;
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, ConstBytes bytes) {
  static const Crc32 compute = fastest();
  return compute(crc, bytes);
}

}  // namespace softib::roce
