#include "wire/checksum.hpp"

#include <array>
#include <cstring>

namespace ipoib::wire {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLanes = 4;

std::uint64_t load_word(const std::uint8_t* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

/// Ones' complement: the carry comes in again at the other end.
std::uint64_t add_around(std::uint64_t sum, std::uint64_t word) {
  return sum + word + static_cast<std::uint64_t>(sum > ~word);
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

/// The sum of the octets as words of this machine. What order the octets of a word have does not
/// matter to it (RFC 1071, 2 (B)), nor how many are added at a time (2 (C)).
std::uint16_t native_sum(ConstBytes bytes) {
  const std::uint8_t* at = bytes.data();
  std::size_t left = bytes.size();
  std::array<std::uint64_t, kLanes> lanes{};
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = add_around(lanes[i], load_word(at + i * kWord));
    }
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : lanes) sum = add_around(sum, lane);
  for (; left >= kWord; left -= kWord, at += kWord) sum = add_around(sum, load_word(at));
  // An odd last octet is the first of its word (RFC 1071, 4.1).
  std::uint64_t rest = 0;
  if (left > 0) std::memcpy(&rest, at, left);
  return fold(add_around(sum, rest));
}

}  // namespace

InternetChecksum& InternetChecksum::add(ConstBytes bytes) {
  const std::uint16_t sum = native_sum(bytes);
  std::array<std::uint8_t, sizeof sum> octets{};
  std::memcpy(octets.data(), &sum, sizeof sum);
  sum_ += load_be<std::uint16_t>(octets.data());
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
