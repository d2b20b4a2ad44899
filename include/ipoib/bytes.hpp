// Bounded big-endian readers and writers. No other code deals with byte order.
//
// Past its end, a reader returns zeros, and a writer discards what does not fit; then ok() is
// false. The caller checks ok() once, after the last field.
#pragma once

#include <algorithm>
#include <array>
#include <boost/endian/conversion.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ipoib {

using ConstBytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// Single loads and stores (except for 3 bytes), which avoid store-forwarding stalls.

/// Loads the number of `Width` bytes at `bytes`.
template <std::unsigned_integral T, std::size_t Width = sizeof(T)>
[[nodiscard]] T load_be(const std::uint8_t* bytes) {
  return boost::endian::endian_load<T, Width, boost::endian::order::big>(bytes);
}

template <std::unsigned_integral T, std::size_t Width = sizeof(T)>
void store_be(std::uint8_t* bytes, T value) {
  boost::endian::endian_store<T, Width, boost::endian::order::big>(bytes, value);
}

/// Loads a number in the byte order of the host, for messages between processes.
template <std::unsigned_integral T>
[[nodiscard]] T load_native(const std::uint8_t* bytes) {
  return boost::endian::endian_load<T, sizeof(T), boost::endian::order::native>(bytes);
}

template <std::unsigned_integral T>
void store_native(std::uint8_t* bytes, T value) {
  boost::endian::endian_store<T, sizeof(T), boost::endian::order::native>(bytes, value);
}

class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint8_t u8() { return number<std::uint8_t, 1>(); }
  [[nodiscard]] std::uint16_t u16() { return number<std::uint16_t, 2>(); }
  [[nodiscard]] std::uint32_t u24() { return number<std::uint32_t, 3>(); }
  [[nodiscard]] std::uint32_t u32() { return number<std::uint32_t, 4>(); }
  [[nodiscard]] std::uint64_t u64() { return number<std::uint64_t, 8>(); }
  template <std::size_t N>
  [[nodiscard]] std::array<std::uint8_t, N> array() {
    std::array<std::uint8_t, N> out{};
    if (const auto from = take(N); !from.empty()) std::copy_n(from.data(), N, out.data());
    return out;
  }
  /// The next `count` bytes, or an empty span if fewer are left.
  [[nodiscard]] ConstBytes take(std::size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const auto out = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return out;
  }
  void skip(std::size_t count) { (void)take(count); }
  [[nodiscard]] ConstBytes rest() const { return bytes_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  template <std::unsigned_integral T, std::size_t Width>
  T number() {
    const auto from = take(Width);
    return from.empty() ? T{0} : load_be<T, Width>(from.data());
  }
  ConstBytes bytes_;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(MutableBytes bytes) : all_(bytes) {}

  void u8(std::uint8_t value) { number<std::uint8_t, 1>(value); }
  void u16(std::uint16_t value) { number<std::uint16_t, 2>(value); }
  void u24(std::uint32_t value) { number<std::uint32_t, 3>(value); }
  void u32(std::uint32_t value) { number<std::uint32_t, 4>(value); }
  void u64(std::uint64_t value) { number<std::uint64_t, 8>(value); }
  void bytes(ConstBytes from) {
    if (const auto to = reserve(from.size()); to.size() == from.size()) {
      std::copy(from.begin(), from.end(), to.begin());
    }
  }
  void zeros(std::size_t count) {
    const auto to = reserve(count);
    std::fill(to.begin(), to.end(), std::uint8_t{0});
  }
  [[nodiscard]] std::size_t written() const { return used_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  MutableBytes reserve(std::size_t count) {
    if (count > all_.size() - used_) {
      ok_ = false;
      return {};
    }
    const auto out = all_.subspan(used_, count);
    used_ += count;
    return out;
  }
  template <std::unsigned_integral T, std::size_t Width>
  void number(T value) {
    if (const auto to = reserve(Width); !to.empty()) store_be<T, Width>(to.data(), value);
  }
  MutableBytes all_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace ipoib
