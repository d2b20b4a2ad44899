// Bytes written by hand, and checks that every codec must pass.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// Hexadecimal digits with optional blanks between bytes.
inline std::vector<std::uint8_t> from_hex(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 1 < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    const auto high = kDigits.find(text[i]);
    const auto low = kDigits.find(text[i + 1]);
    out.push_back(static_cast<std::uint8_t>(high << 4 | low));
    i += 2;
  }
  return out;
}

/// Checks that emit() writes these bytes, and parse() returns the value.
template <class Value>
void expect_golden(const Value& value, const std::vector<std::uint8_t>& golden) {
  std::vector<std::uint8_t> emitted(golden.size(), 0xee);
  value.emit(emitted);
  EXPECT_EQ(emitted, golden);
  EXPECT_EQ(Value::parse(golden), value);
}

/// Checks that every byte is required.
template <class Value>
void expect_truncations_refused(const std::vector<std::uint8_t>& golden) {
  for (std::size_t size = 0; size < golden.size(); ++size) {
    EXPECT_FALSE(Value::parse(ConstBytes(golden).first(size))) << size << " bytes";
  }
}

/// Checks that any bytes that parse have the same value after emit() and parse().
template <class Value>
void expect_stable(std::vector<std::uint8_t> golden) {
  for (std::size_t at = 0; at < golden.size(); ++at) {
    for (const std::uint8_t flip : std::initializer_list<std::uint8_t>{0x01, 0x80, 0xff}) {
      golden[at] ^= flip;
      if (const auto value = Value::parse(golden)) {
        std::vector<std::uint8_t> emitted(golden.size());
        value->emit(emitted);
        EXPECT_EQ(Value::parse(emitted), value) << "byte " << at;
      }
      golden[at] ^= flip;
    }
  }
}

}  // namespace ipoib::wire
