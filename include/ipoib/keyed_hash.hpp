// A hash for tables whose keys strangers choose: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a
// fast short-input PRF", 2012).
//
// Why: who knows a table's hash function finds thousands of keys with one hash, and makes each
// look-up of one of them search through all. SipHash with a secret key is a pseudo-random function:
// without the key, observing the table does not help to find such keys. One round for each word and
// three at the end are what Linux, Python and Rust use for hash tables.
// The key is a value, so that whoever needs repeatable runs chooses it; ipoibd takes random ones.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"

namespace ipoib {

/// 128 secret bits. Has no default: a key that is forgotten does not compile.
struct HashKey {
  constexpr HashKey(std::uint64_t first_half, std::uint64_t second_half)
      : first(first_half), second(second_half) {}
  std::uint64_t first;  ///< bytes 0 to 7, the lowest first
  std::uint64_t second;
};

/// A function object; copies have the same key.
class KeyedHash {
 public:
  constexpr explicit KeyedHash(const HashKey& key)
      : initial_{key.first ^ 0x736f6d6570736575, key.second ^ 0x646f72616e646f6d,
                 key.first ^ 0x6c7967656e657261, key.second ^ 0x7465646279746573} {}

  template <std::size_t size>
  [[nodiscard]] std::uint64_t operator()(const std::array<std::uint8_t, size>& bytes) const {
    State s = initial_;
    constexpr std::size_t kWhole = size / kWord * kWord;
    for (std::size_t at = 0; at < kWhole; at += kWord) s.add(word(bytes.data() + at, kWord));
    s.add(word(bytes.data() + kWhole, size - kWhole) | std::uint64_t{size % 256} << 56);
    s.v2 ^= 0xff;
    s.mix(), s.mix(), s.mix();
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  }
  [[nodiscard]] std::uint64_t operator()(Ipv4Address address) const {
    return (*this)(address.bytes());
  }
  [[nodiscard]] std::uint64_t operator()(const Ipv6Address& address) const {
    return (*this)(address.bytes());
  }
  [[nodiscard]] std::uint64_t operator()(const Gid& gid) const { return (*this)(gid.bytes()); }
  [[nodiscard]] std::uint64_t operator()(const MacAddress& address) const {
    return (*this)(address.bytes());
  }
  /// The two families differ in length, which is part of what is hashed.
  [[nodiscard]] std::uint64_t operator()(const IpAddress& address) const {
    const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
    return ipv4 != nullptr ? (*this)(*ipv4) : (*this)(*std::get_if<Ipv6Address>(&address));
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  struct State {
    std::uint64_t v0, v1, v2, v3;

    constexpr void mix() {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
    constexpr void add(std::uint64_t word) { v3 ^= word, mix(), v0 ^= word; }
  };

  /// Loads a word in the byte order of the host. On a big-endian host this is not SipHash as
  /// published, but as good.
  [[nodiscard]] static std::uint64_t word(const std::uint8_t* bytes, std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, count);
    return value;
  }

  State initial_;
};

}  // namespace ipoib
