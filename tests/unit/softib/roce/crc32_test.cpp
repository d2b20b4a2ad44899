#include "softib/roce/crc32.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace softib::roce {
namespace {

/// Bit by bit, as IEEE 802.3 (3.2.9) defines it.
std::uint32_t by_definition(ipoib::ConstBytes bytes) {
  std::uint32_t crc = 0xffff'ffff;
  for (const auto byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb8'8320 : crc >> 1;
  }
  return ~crc;
}

std::vector<std::uint8_t> bytes_of(std::size_t size) {
  std::vector<std::uint8_t> bytes;
  std::uint32_t value = 1;
  for (std::size_t i = 0; i < size; ++i) {
    value = value * 1'664'525 + 1'013'904'223;
    bytes.push_back(static_cast<std::uint8_t>(value >> 24));
  }
  return bytes;
}

TEST(Crc32, OfTheDigits) {
  const std::vector<std::uint8_t> digits{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32(0, digits), 0xcbf4'3926U);
}

TEST(Crc32, OfEachLengthIsThatOfTheDefinition) {
  const auto bytes = bytes_of(1100);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto part = ipoib::ConstBytes(bytes).first(size);
    ASSERT_EQ(crc32(0, part), by_definition(part)) << size << " bytes";
  }
}

TEST(Crc32, OfPartsIsThatOfTheWhole) {
  const auto bytes = bytes_of(4200);
  const auto whole = by_definition(bytes);
  for (std::size_t first = 0; first <= bytes.size(); first += 37) {
    const auto all = ipoib::ConstBytes(bytes);
    ASSERT_EQ(crc32(crc32(0, all.first(first)), all.subspan(first)), whole) << first << " bytes";
  }
}

TEST(Crc32, APowerOfXIsWhatZeroesDo) {
  std::vector<std::uint8_t> bytes = bytes_of(8);
  std::vector<std::uint8_t> others = bytes_of(16);
  others.resize(8);
  others[3] ^= 0x40;
  const auto difference = crc32(0, bytes) ^ crc32(0, others);
  bytes.resize(8 + 600);
  others.resize(8 + 600);
  EXPECT_EQ(crc32(0, bytes) ^ crc32(0, others), multiply(difference, power_of_x(8 * 600)));
}

}  // namespace
}  // namespace softib::roce
