// What the host is told of a packet that is too large for the link or for the path to a neighbour.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

/// The most that such a message takes, with its IP header: RFC 4443, 2.4 (c).
inline constexpr std::size_t kMaxIcmpError = 1280;

/// Writes the message that answers `packet`, which is longer than `mtu` octets, into `to`, which
/// has room for kMaxIcmpError octets: ICMP "fragmentation needed" (RFC 792; RFC 1191, 4) or ICMPv6
/// "packet too big" (RFC 4443, 3.2). It comes from the packet's own destination: the link has no
/// address, and no router answers here. Returns its size, or 0 where none may be sent: to what is
/// no IP packet, a later fragment, another error, or to a group.
[[nodiscard]] std::size_t emit_too_big(ConstBytes packet, std::uint32_t mtu, MutableBytes to);

}  // namespace ipoib::wire
