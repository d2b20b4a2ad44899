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
/// For a class D address: its low 28 bits in the low 28 bits of the MGID.
[[nodiscard]] Gid multicast_gid(Ipv4Address group, PKey pkey, std::uint8_t scope = kLinkLocalScope);
/// For an IPv6 group: its low 80 bits verbatim.
[[nodiscard]] Gid multicast_gid(const Ipv6Address& group, PKey pkey,
                                std::uint8_t scope = kLinkLocalScope);
/// The address of an IPv4 group, or the limited broadcast; nothing for any other MGID. IPv6 groups
/// lose their first 48 bits on the way.
[[nodiscard]] std::optional<Ipv4Address> ipv4_group(const Gid& mgid);
/// Whether an MGID carries one of the two signatures of IPoIB.
[[nodiscard]] bool is_ipoib_mgid(const Gid& mgid);
[[nodiscard]] bool is_ipv6_mgid(const Gid& mgid);

}  // namespace ipoib::wire
