// Ethernet frames (IEEE 802.3) as the host's side of an interface has them: the header, and
// the addresses of IP multicast.
//
//   0                 6            12     14
//   | destination     | source     | type | packet
#pragma once

#include <cstdint>

#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::wire {

struct EthernetHeader {
  static constexpr std::size_t kSize = 14;

  MacAddress destination;
  MacAddress source;
  std::uint16_t type = 0;  ///< may be none of EtherType

  /// Reads the kSize bytes at `from`.
  [[nodiscard]] static EthernetHeader parse(const std::uint8_t* from);
  /// Writes kSize bytes to `to`.
  void emit(std::uint8_t* to) const;
  friend bool operator==(const EthernetHeader&, const EthernetHeader&) = default;
};

[[nodiscard]] constexpr bool is_type(const EthernetHeader& header, EtherType type) {
  return header.type == static_cast<std::uint16_t>(type);
}

/// The destination of frames to a multicast group: RFC 1112, 6.4 and RFC 2464, 7.
[[nodiscard]] MacAddress multicast_mac(Ipv4Address group);
[[nodiscard]] MacAddress multicast_mac(const Ipv6Address& group);

}  // namespace ipoib::wire
