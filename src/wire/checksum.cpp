#include "wire/checksum.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace ipoib::wire {

namespace {

template <class Word>
Word take_word(ConstBytes& bytes) {
  Word word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  bytes = bytes.subspan(sizeof word);
  return word;
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

constexpr std::size_t kBlock = 64;

/// The sum of whole blocks: 32-bit words in 64-bit lanes, which hold the carries of 2^32 words.
/// Inlined into functions that are compiled for different processors.
[[gnu::always_inline]] inline std::uint64_t sum_blocks(const std::uint8_t* at, std::size_t blocks) {
  using Vector [[gnu::vector_size(kBlock / 2)]] = std::uint64_t;
  constexpr std::uint64_t kLow = 0xffffffff;
  Vector lanes{};
  Vector others{};
  for (; blocks > 0; --blocks, at += kBlock) {
    Vector one;
    Vector other;
    std::memcpy(&one, at, sizeof one);
    std::memcpy(&other, at + sizeof one, sizeof other);
    lanes += (one & kLow) + (one >> 32);
    others += (other & kLow) + (other >> 32);
  }
  lanes += others;
  return std::uint64_t{fold(lanes[0])} + fold(lanes[1]) + fold(lanes[2]) + fold(lanes[3]);
}

using SumBlocks = std::uint64_t (*)(const std::uint8_t*, std::size_t);

std::uint64_t sum_blocks_generic(const std::uint8_t* at, std::size_t blocks) {
  return sum_blocks(at, blocks);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] std::uint64_t sum_blocks_avx2(const std::uint8_t* at, std::size_t blocks) {
  return sum_blocks(at, blocks);
}
SumBlocks fastest() {
  return __builtin_cpu_supports("avx2") != 0 ? sum_blocks_avx2 : sum_blocks_generic;
}
#else
SumBlocks fastest() { return sum_blocks_generic; }
#endif

const SumBlocks kSumBlocks = fastest();

/// The sum in native byte order. Its value depends neither on the byte order (RFC 1071, 2 (B)) nor
/// on the word size (2 (C)), except that the result has the same byte order.
std::uint16_t native_sum(ConstBytes bytes) {
  const std::size_t blocks = bytes.size() / kBlock;
  std::uint64_t sum = blocks > 0 ? kSumBlocks(bytes.data(), blocks) : 0;
  bytes = bytes.subspan(blocks * kBlock);
  while (bytes.size() >= sizeof sum) {
    const auto word = take_word<std::uint64_t>(bytes);
    sum += (word & 0xffffffff) + (word >> 32);
  }
  if (bytes.size() & 4) sum += take_word<std::uint32_t>(bytes);
  if (bytes.size() & 2) sum += take_word<std::uint16_t>(bytes);
  // The last byte of an odd number is the first one of its word (RFC 1071, 4.1).
  std::uint16_t last = 0;
  if (!bytes.empty()) std::memcpy(&last, bytes.data(), 1);
  return fold(sum + last);
}

}  // namespace

InternetChecksum& InternetChecksum::add(ConstBytes bytes) {
  const std::uint16_t sum = native_sum(bytes);
  std::array<std::uint8_t, sizeof sum> bytes_of_sum{};
  std::memcpy(bytes_of_sum.data(), &sum, sizeof sum);
  sum_ += load_be<std::uint16_t>(bytes_of_sum.data());
  return *this;
}

InternetChecksum& InternetChecksum::add_pseudo_header(Ipv4Address source, Ipv4Address destination,
                                                      std::uint8_t protocol, std::uint16_t length) {
  add(source.bytes()).add(destination.bytes());
  sum_ += std::uint32_t{protocol} + length;
  return *this;
}

InternetChecksum& InternetChecksum::add_pseudo_header(const Ipv6Address& source,
                                                      const Ipv6Address& destination,
                                                      std::uint8_t protocol, std::uint32_t length) {
  add(source.bytes()).add(destination.bytes());
  sum_ += std::uint64_t{protocol} + length;
  return *this;
}

std::uint16_t InternetChecksum::sum() const { return fold(sum_); }

}  // namespace ipoib::wire
