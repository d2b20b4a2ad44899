// The answer to a packet of the host that does not fit.
#pragma once

#include <cstdint>

#include "ipoib/frame.hpp"
#include "link/output.hpp"

namespace ipoib::link {

/// Drops an IP packet that is longer than `mtu` octets, counted as `why`, and tells the host by
/// ICMP or ICMPv6 which size would fit. The message takes the packet's own frame.
void answer_too_big(Frame&& packet, std::uint32_t mtu, Counter why, Output& out);

}  // namespace ipoib::link
