// Ethernet frames (IEEE 802.3) as the host's side of an interface has them: the header, ARP, and
// the addresses of IP multicast.
//
//   0                 6            12     14
//   | destination     | source     | type | packet
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "wire/arp.hpp"
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

/// An ARP message of Ethernet (RFC 826): hardware type 1, 6-byte addresses, 28 bytes.
struct EthernetArp {
  static constexpr std::size_t kSize = 28;
  static constexpr std::uint16_t kHardwareType = 1;

  ArpOperation operation = ArpOperation::request;
  MacAddress sender_hardware;
  Ipv4Address sender_protocol;
  MacAddress target_hardware;
  Ipv4Address target_protocol;

  /// Returns nullopt unless hardware type, protocol, lengths and operation are those of IPv4 over
  /// Ethernet.
  [[nodiscard]] static std::optional<EthernetArp> parse(ConstBytes packet);
  /// Writes kSize bytes; `to` has room for them.
  void emit(MutableBytes to) const;
  friend bool operator==(const EthernetArp&, const EthernetArp&) = default;
};

/// The destination of frames to a multicast group: RFC 1112, 6.4 and RFC 2464, 7.
[[nodiscard]] MacAddress multicast_mac(Ipv4Address group);
[[nodiscard]] MacAddress multicast_mac(const Ipv6Address& group);

}  // namespace ipoib::wire
