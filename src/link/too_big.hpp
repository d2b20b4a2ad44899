// The answer to a packet of the host that does not fit.
#pragma once

#include <cstdint>

#include "ipoib/frame.hpp"
#include "link/output.hpp"

namespace ipoib::link {

/// Drops an IP packet that is longer than `mtu` octets, counted as `why`, and tells the host by
/// ICMP or ICMPv6 which size would fit. The message takes the packet's own frame.
///
/// A router would fragment an IPv4 packet whose sender allows that (RFC 791, 3.2); here the sender
/// is the host itself, which makes fragments of the next one when it is told (RFC 1191, 3).
void answer_too_big(Frame&& packet, std::uint32_t mtu, Counter why, Output& out);

}  // namespace ipoib::link
