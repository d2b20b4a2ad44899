// Recognises the messages that a host sends when it joins or leaves a group: the trigger to read
// its groups where the kernel does not announce changes.
#pragma once

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// Whether a well-formed IP packet is a report or a leave message of IGMP (RFC 3376) or MLD (RFC
/// 3810, 5: after a hop-by-hop header with the router alert).
[[nodiscard]] bool changes_host_groups(ConstBytes packet);

}  // namespace ipoib::wire
