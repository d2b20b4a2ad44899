// Advertisements of VRRP, by which the routers of a virtual address elect the one that has it (RFC
// 5798).
#pragma once

#include "ipoib/bytes.hpp"
#include "ipoib/mac_address.hpp"

namespace ipoib::wire {

/// Whether an IP packet is an advertisement (RFC 5798, 5.1). Only the IP header is checked.
[[nodiscard]] bool is_vrrp_advertisement(ConstBytes packet);

/// Whether a MAC is that of a virtual router: 00-00-5e-00-01 for IPv4, 00-00-5e-00-02 for IPv6, and
/// its number (RFC 5798, 7.3).
[[nodiscard]] constexpr bool is_virtual_router_mac(MacAddress mac) {
  constexpr std::uint64_t kIpv4 = 0x0000'5e00'01;
  constexpr std::uint64_t kIpv6 = 0x0000'5e00'02;
  const std::uint64_t begin = mac.number() >> 8;
  return begin == kIpv4 || begin == kIpv6;
}

}  // namespace ipoib::wire
