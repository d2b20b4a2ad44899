// What a host sends when it joins or leaves a group: the hint to look which groups it is in, where
// its kernel does not announce that.
#pragma once

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// Whether a well-formed IP packet is a report or a "leave" of IGMP (RFC 3376) or of MLD (RFC 3810,
/// 5: behind a hop-by-hop header with the router alert).
[[nodiscard]] bool changes_host_groups(ConstBytes packet);

}  // namespace ipoib::wire
