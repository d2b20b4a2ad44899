// ICMP errors to the host about its packets.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/segmentation.hpp"

namespace ipoib::wire {

/// The maximum size of such a message, with its IP header (RFC 4443, 2.4 (c)).
inline constexpr std::size_t kMaxIcmpError = 1280;

// The functions below write the error for `packet` to `to`, which has room for kMaxIcmpError bytes.
// Its source is the packet's destination: the kernel would drop a message from an address of its
// own. They return its size, or 0 if none may be sent: about a later fragment, an ICMP error or
// redirect, a packet to a group or without a single sender, or one that is not IP.

/// For a packet longer than `mtu` bytes: ICMP "fragmentation needed" (RFC 792; RFC 1191, 4) or
/// ICMPv6 "packet too big" (RFC 4443, 3.2).
[[nodiscard]] std::size_t emit_too_big(ConstBytes packet, std::uint32_t mtu, MutableBytes to);

/// For a packet whose next hop does not respond: ICMP "host unreachable" (RFC 1812, 5.2.7.1) or
/// ICMPv6 "address unreachable" (RFC 4861, 7.2.2; RFC 4443, 3.1).
[[nodiscard]] std::size_t emit_unreachable(ConstBytes packet, MutableBytes to);

/// For a packet without a route: ICMP "network unreachable" (RFC 1812, 5.2.7.1) or ICMPv6 "no route
/// to destination" (RFC 4443, 3.1).
[[nodiscard]] std::size_t emit_no_route(ConstBytes packet, MutableBytes to);

/// Whether an IPv4 packet is an ICMP redirect (RFC 792).
[[nodiscard]] inline bool is_icmp_redirect(ConstBytes packet, UpperLayer upper) {
  constexpr std::uint8_t kIcmp = 1;
  constexpr std::uint8_t kRedirect = 5;
  return upper.protocol == kIcmp && upper.begin != 0 && packet.size() > upper.begin &&
         packet[upper.begin] == kRedirect;
}

}  // namespace ipoib::wire
