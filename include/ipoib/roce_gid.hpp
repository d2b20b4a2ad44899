// Which GIDs IPoIB on RoCE v2 can have to do with.
#pragma once

#include "ipoib/address.hpp"

namespace ipoib {

/// An address that an IPv6 packet can have; a GID may be an IPv4 address as well (::ffff:a.b.c.d).
[[nodiscard]] constexpr bool is_unicast_ipv6(const Gid& gid) {
  const bool is_ipv4 = gid.prefix() == 0 && gid.guid().value() >> 32 == 0xffff;
  return !gid.is_zero() && !gid.is_multicast() && !is_ipv4;
}

}  // namespace ipoib
