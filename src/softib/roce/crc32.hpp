// The CRC of Ethernet (IEEE 802.3, 3.2.9), as fast as the processor can compute it.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"

namespace softib::roce {

/// The CRC of bytes that have the CRC `crc`, followed by `bytes`. Nothing has the CRC 0.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, ipoib::ConstBytes bytes);

/// The product of two polynomials modulo that of the CRC. Bit 31 is the coefficient of x^0.
[[nodiscard]] constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kPolynomial = 0xedb88320;
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1U << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

/// x^exponent modulo the polynomial. x^(8 bytes) is what so many bytes of zeroes do to a CRC.
[[nodiscard]] constexpr std::uint32_t power_of_x(std::size_t exponent) {
  std::uint32_t power = 1U << 31;
  std::uint32_t square = 1U << 30;  // x
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

}  // namespace softib::roce
