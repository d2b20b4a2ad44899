// The GIDs that IPoIB over RoCE v2 can use.
#pragma once

#include "ipoib/address.hpp"

namespace ipoib {

/// Whether a GID is a unicast IPv6 address, rather than an IPv4 address (::ffff:a.b.c.d).
[[nodiscard]] constexpr bool is_unicast_ipv6(const Gid& gid) {
  const bool is_ipv4 = gid.prefix() == 0 && gid.guid().value() >> 32 == 0xffff;
  return !gid.is_zero() && !gid.is_multicast() && !is_ipv4;
}

}  // namespace ipoib
