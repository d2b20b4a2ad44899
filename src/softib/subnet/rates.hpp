// Comparing MTU and rate codes as the SA does (IBA 15.2.5.16, 15.2.5.17).
#pragma once

#include <cstdint>

#include "wire/sa_values.hpp"

namespace softib::subnet {

inline constexpr std::uint8_t kMaxRateCode = 63;  ///< 6 bits

[[nodiscard]] inline bool is_mtu(std::uint8_t code) { return ipoib::wire::mtu_octets(code) != 0; }
[[nodiscard]] inline bool is_rate(std::uint8_t code) { return ipoib::wire::rate_mbps(code) != 0; }

/// Rate codes are not in the order of the rates: negative, 0, positive as `left` is slower than,
/// as fast as, faster than `right`.
[[nodiscard]] int compare_rates(std::uint8_t left, std::uint8_t right);
/// The code of the next slower rate; 0 when there is none.
[[nodiscard]] std::uint8_t slower_rate(std::uint8_t code);

/// Whether `have` is what `selector` asks for, given the value of the request.
[[nodiscard]] bool mtu_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted,
                                 std::uint8_t have);
[[nodiscard]] bool rate_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted,
                                  std::uint8_t have);

}  // namespace softib::subnet
