// ICMP errors to the host about packets too large for the link or for the path to a neighbour.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

/// The maximum size of such a message, with its IP header (RFC 4443, 2.4 (c)).
inline constexpr std::size_t kMaxIcmpError = 1280;

/// Writes the error for `packet`, which is longer than `mtu` bytes, to `to`, which has room for
/// kMaxIcmpError bytes: ICMP "fragmentation needed" (RFC 792; RFC 1191, 4) or ICMPv6 "packet too
/// big" (RFC 4443, 3.2). Its source is the packet's destination, since the link has no address of
/// its own. Returns its size, or 0 if none may be sent: about a later fragment, an ICMP error, a
/// packet to a group, or one that is not IP.
[[nodiscard]] std::size_t emit_too_big(ConstBytes packet, std::uint32_t mtu, MutableBytes to);

}  // namespace ipoib::wire
