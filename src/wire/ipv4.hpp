// The part of IPv4 that the link needs to choose a destination (RFC 791, 3.1).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

inline constexpr std::uint8_t kUdp = 17;  ///< protocol number
inline constexpr std::size_t kUdpHeader = 8;

struct Ipv4Header {
  static constexpr std::size_t kMinimumSize = 20;

  Ipv4Address source;
  Ipv4Address destination;
  std::uint8_t header_size = kMinimumSize;  ///< bytes, with options
  std::uint16_t total_length = 0;           ///< bytes, header and payload
  std::uint8_t protocol = 0;

  /// The size of a header that begins with this byte.
  [[nodiscard]] static constexpr std::uint8_t size_by(std::uint8_t first) {
    return static_cast<std::uint8_t>((first & 0x0f) * 4);
  }
  /// Returns nullopt unless version, header length and total length are valid for the packet.
  [[nodiscard]] static std::optional<Ipv4Header> parse(ConstBytes packet);
};

/// IP version of a packet; 0 if it is empty.
[[nodiscard]] inline std::uint8_t ip_version(ConstBytes packet) {
  return packet.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(packet[0] >> 4);
}

}  // namespace ipoib::wire
