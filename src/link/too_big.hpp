// ICMP responses to packets of the host that exceed an MTU.
#pragma once

#include <cstdint>

#include "ipoib/frame.hpp"
#include "link/output.hpp"

namespace ipoib::link {

/// Drops an IP packet that is longer than `mtu` bytes, counts it as `why`, and reports the MTU to
/// the host by ICMP or ICMPv6. The message reuses the packet's frame.
///
/// A router would fragment an IPv4 packet without DF (RFC 791, 3.2). Here the sender is the host
/// itself, which fragments its next packets after the message (RFC 1191, 3).
void reject_too_big(Frame&& packet, std::uint32_t mtu, Counter why, Output& out);

}  // namespace ipoib::link
