// Codes that the records of the subnet administrator share (IBA 15.2.5.16).
#pragma once

#include <cstdint>

namespace ipoib::wire {

/// How a value of a query is to be compared (IBA 15.2.5.16).
enum class Selector : std::uint8_t { greater = 0, less = 1, exactly = 2, largest = 3 };

/// IBA MTU code (1..5 = 256..4096) and its size in octets; 0 for an invalid code, 0 for no such
/// size.
[[nodiscard]] constexpr std::uint32_t mtu_bytes(std::uint8_t code) {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}
[[nodiscard]] constexpr std::uint8_t mtu_code(std::uint32_t octets) {
  for (std::uint8_t code = 1; code <= 5; ++code) {
    if (mtu_bytes(code) == octets) return code;
  }
  return 0;
}
/// IBA rate code of a PathRecord in Mb/s (2 = 2500, 3 = 10000, ...); 0 for an unknown code.
[[nodiscard]] std::uint32_t rate_mbps(std::uint8_t code);

}  // namespace ipoib::wire
