// Ethernet frames (IEEE 802.3) as the host's side of an interface has them: the header, the tag of
// a VLAN (IEEE 802.1Q), and the addresses of IP multicast.
//
//   0                 6            12     14
//   | destination     | source     | type | packet
//   0                 6            12       14                   16     18
//   | destination     | source     | 0x8100 | priority, VLAN id  | type | packet
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/vlan_id.hpp"
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

/// The tag between the source and the type of a frame.
struct VlanTag {
  static constexpr std::size_t kSize = 4;
  static constexpr std::size_t kOffset = 12;  ///< in the frame
  static constexpr std::uint16_t kType = 0x8100;
  static constexpr std::uint16_t kServiceType = 0x88a8;  ///< of the outer one of two (802.1ad)

  std::uint8_t priority = 0;   ///< PCP, 3 bits
  bool drop_eligible = false;  ///< DEI
  VlanId vlan;

  /// nullopt if the frame has no tag, or is too short for a tag and a type.
  [[nodiscard]] static std::optional<VlanTag> parse(ConstBytes frame);
  /// Writes kSize bytes to `to`.
  void emit(std::uint8_t* to) const;
  friend bool operator==(const VlanTag&, const VlanTag&) = default;
};

/// The destination of spanning tree messages (IEEE 802.1D).
inline constexpr MacAddress kStpGroup{0x0180'c200'0000};
inline constexpr std::uint16_t kLldpType = 0x88cc;

/// The destination of frames to a multicast group: RFC 1112, 6.4 and RFC 2464, 7.
[[nodiscard]] MacAddress multicast_mac(Ipv4Address group);
[[nodiscard]] MacAddress multicast_mac(const Ipv6Address& group);

}  // namespace ipoib::wire
