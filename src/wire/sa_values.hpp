// Codes that several SA records use (IBA 15.2.5.16).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ipoib::wire {

/// How the SA compares a value of a query (IBA 15.2.5.16).
enum class Selector : std::uint8_t { greater = 0, less = 1, exactly = 2, largest = 3 };

/// Whether a value satisfies a query. `order` is negative, 0 or positive if the value is less than,
/// equal to or greater than that of the query.
[[nodiscard]] constexpr bool satisfies(Selector selector, int order) {
  switch (selector) {
    case Selector::greater:
      return order > 0;
    case Selector::less:
      return order < 0;
    case Selector::exactly:
      return order == 0;
    case Selector::largest:
      return true;
  }
  return false;
}

/// Convert between IBA MTU codes (1..5) and sizes in bytes (256..4096); 0 for an invalid argument.
[[nodiscard]] constexpr std::uint32_t mtu_bytes(std::uint8_t code) {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}
[[nodiscard]] constexpr std::uint8_t mtu_code(std::uint32_t bytes) {
  for (std::uint8_t code = 1; code <= 5; ++code) {
    if (mtu_bytes(code) == bytes) return code;
  }
  return 0;
}
/// IBA rate code of a PathRecord in Mb/s (2 = 2500, 3 = 10000, ...); 0 for an unknown code.
[[nodiscard]] std::uint32_t rate_mbps(std::uint8_t code);
/// The code of a rate in Gb/s as people write it: exact as "2.5", rounded to 1 Gb/s as "103", or
/// nominal as "100". 0 if there is none.
[[nodiscard]] std::uint8_t rate_code(std::string_view gbits);
/// All rates in Gb/s, rounded and in ascending order, for an error message.
[[nodiscard]] std::string known_rates();

}  // namespace ipoib::wire
