// IP multicast addresses as multicast GIDs (RFC 4391, 4).
//
//   |   8    |  4 |  4 |     16 bits     |  16 bits  |          80 bits           |
//   +--------+----+----+-----------------+-----------+----------------------------+
//   |11111111|0001|scop|<IPoIB signature>|  P_Key    |      group identifier      |
//   +--------+----+----+-----------------+-----------+----------------------------+
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

inline constexpr std::uint8_t kLinkLocalScope = 2;
inline constexpr std::uint16_t kIpv4Signature = 0x401b;
inline constexpr std::uint16_t kIpv6Signature = 0x601b;

/// The link's broadcast group FF1s:401B:<P_Key>::FFFF:FFFF, P_Key with its full-member bit set.
[[nodiscard]] Gid broadcast_gid(PKey pkey, std::uint8_t scope = kLinkLocalScope);
/// The MGID of a class D address, with its low 28 bits.
[[nodiscard]] Gid multicast_gid(Ipv4Address group, PKey pkey, std::uint8_t scope = kLinkLocalScope);
/// The MGID of an IPv6 group, with its low 80 bits.
[[nodiscard]] Gid multicast_gid(const Ipv6Address& group, PKey pkey,
                                std::uint8_t scope = kLinkLocalScope);
/// The IPv4 group or limited broadcast address of an MGID; nullopt for any other MGID.
[[nodiscard]] std::optional<Ipv4Address> ipv4_group(const Gid& mgid);
/// The solicited-node group (RFC 4291, 2.7.1) of an MGID. There is no inverse for other IPv6
/// groups: an MGID has only their low 80 bits, so neither their scope nor their flags.
[[nodiscard]] std::optional<Ipv6Address> solicited_node_group(const Gid& mgid);
/// Whether an MGID has one of the two IPoIB signatures.
[[nodiscard]] bool is_ipoib_mgid(const Gid& mgid);
[[nodiscard]] bool is_ipv6_mgid(const Gid& mgid);
/// The scope of a multicast GID.
[[nodiscard]] std::uint8_t scope_of(const Gid& mgid);

}  // namespace ipoib::wire
