// Comparison of MTU and rate codes by the SA (IBA 15.2.5.16, 15.2.5.17).
#pragma once

#include <cstdint>

#include "wire/sa_values.hpp"

namespace softib::subnet {

inline constexpr std::uint8_t kMaxRateCode = 63;  ///< 6 bits

[[nodiscard]] inline bool is_mtu(std::uint8_t code) { return ipoib::wire::mtu_bytes(code) != 0; }
[[nodiscard]] inline bool is_rate(std::uint8_t code) { return ipoib::wire::rate_mbps(code) != 0; }

/// Compares the rates of two codes, whose order differs from that of the codes. Returns a negative
/// value, 0 or a positive value if `left` is slower, equal or faster.
[[nodiscard]] int compare_rates(std::uint8_t left, std::uint8_t right);
/// The code of the next slower rate; 0 if there is none.
[[nodiscard]] std::uint8_t slower_rate(std::uint8_t code);

/// Whether `have` satisfies the selector and value of a request.
[[nodiscard]] bool mtu_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted,
                                 std::uint8_t have);
[[nodiscard]] bool rate_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted,
                                  std::uint8_t have);

}  // namespace softib::subnet
