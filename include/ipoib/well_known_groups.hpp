// Groups that each host or router of a link is a member of (RFC 1112, 4; RFC 4291, 2.7.1), and
// which groups are those of one link.
#pragma once

#include "ipoib/ip.hpp"

namespace ipoib {

/// 224.0.0.1 and ff02::1: every host is a member, but the kernel does not list them.
inline constexpr Ipv4Address kAllNodes{0xe0000001};
inline constexpr Ipv6Address kAllNodesOfIpv6(Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                0, 0, 0, 0, 0, 1});

/// 224.0.0.2 and ff02::2: every router is a member.
inline constexpr Ipv4Address kAllRouters{0xe0000002};
inline constexpr Ipv6Address kAllRoutersOfIpv6(Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0,
                                                                  0, 0, 0, 0, 0, 0, 2});

/// Whether routers may forward the packets of a group: not those of 224.0.0.0/24 (RFC 5771, 4), nor
/// of link-local or smaller scope (RFC 4291, 2.7).
[[nodiscard]] inline bool is_routable(Ipv4Address group) {
  return (group.number() & 0xffffff00) != 0xe0000000;
}
[[nodiscard]] inline bool is_routable(const Ipv6Address& group) {
  return (group.bytes()[1] & 0x0f) > 2;
}

}  // namespace ipoib
