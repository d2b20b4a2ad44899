// GIDs of RoCE v2, which are IP addresses: IPv4 ones as ::ffff:a.b.c.d (IBA annex A17.4.3).
#pragma once

#include "softib/core/node_addresses.hpp"

namespace softib {

inline constexpr std::uint64_t kMappedIpv4 = 0xffff'0000'0000;

[[nodiscard]] inline bool is_ipv4(const Gid& gid) {
  return gid.prefix() == 0 && gid.guid().value() >> 32 == kMappedIpv4 >> 32;
}
/// Requires is_ipv4().
[[nodiscard]] inline std::uint32_t ipv4_of(const Gid& gid) {
  return static_cast<std::uint32_t>(gid.guid().value());
}
/// Whether it is the address of a multicast group. IPv4 groups are 224.0.0.0/4.
[[nodiscard]] inline bool is_ip_multicast(const Gid& gid) {
  constexpr std::uint32_t kGroups = 0xe;
  return gid.is_multicast() || (is_ipv4(gid) && ipv4_of(gid) >> 28 == kGroups);
}
[[nodiscard]] inline Gid gid_of_ipv4(std::uint32_t address) {
  return {0, Guid(kMappedIpv4 | address)};
}
[[nodiscard]] inline Gid ip_gid(const IpAddress& address) {
  if (const auto* const v4 = std::get_if<ipoib::Ipv4Address>(&address)) {
    return gid_of_ipv4(v4->number());
  }
  return Gid(std::get<ipoib::Ipv6Address>(address).bytes());
}
[[nodiscard]] inline IpAddress ip_address_of(const Gid& gid) {
  if (is_ipv4(gid)) return ipoib::Ipv4Address(ipv4_of(gid));
  return ipoib::Ipv6Address(gid.bytes());
}

}  // namespace softib
