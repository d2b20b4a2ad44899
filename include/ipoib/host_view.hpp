// A snapshot of the host's configuration of an interface, mirrored from the kernel. The netlink
// client creates it, and passes it to the link's thread in a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/ip_prefix.hpp"

namespace ipoib {

/// A next hop of a route through the interface.
struct RouteHop {
  std::optional<IpAddress> gateway;  ///< nullopt: the destination is on the link
  std::uint16_t weight = 1;          ///< its share among the next hops of the route
  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

/// A unicast route of one table, with its next hops through the interface.
struct HostRoute {
  IpPrefix destination;
  std::uint32_t metric = 0;
  std::vector<RouteHop> hops;  ///< at least one
  friend bool operator==(const HostRoute&, const HostRoute&) = default;
};

/// A rule that selects a table, with the conditions that a packet shows: its addresses. A packet
/// may or may not match the other conditions (mark, user, interface, ...).
struct RoutingRule {
  IpFamily family = IpFamily::v4;
  std::uint32_t table = 0;
  std::optional<IpPrefix> source = {};
  std::optional<IpPrefix> destination = {};
  bool is_certain = true;  ///< the rule has no other conditions
  /// Routes with prefixes of at most this length are ignored (suppress_prefixlength).
  std::optional<std::uint8_t> ignored_bits = {};
  friend bool operator==(const RoutingRule&, const RoutingRule&) = default;
};

struct RoutingTable {
  std::uint32_t id = 0;
  std::vector<HostRoute> routes;
  friend bool operator==(const RoutingTable&, const RoutingTable&) = default;
};

/// How the kernel responds to ARP requests, and the source addresses of its own. Each value is the
/// combination of those for "all" and for the interface that the kernel uses (ip-sysctl).
struct ArpPolicy {
  std::uint8_t ignore = 0;    ///< arp_ignore
  std::uint8_t announce = 0;  ///< arp_announce
  bool filter = false;        ///< arp_filter
  bool proxy = false;         ///< proxy_arp or proxy_arp_pvlan, and the interface forwards
  friend bool operator==(const ArpPolicy&, const ArpPolicy&) = default;
};

struct HostView {
  /// The maximum number of mirrored routes per family; `routes_left_out` counts the others.
  static constexpr std::size_t kMaxRoutes = 65536;
  static constexpr std::size_t kMaxRules = 4096;

  /// The interface's addresses with their prefixes, in the kernel's order. IPv6 addresses only
  /// after duplicate address detection has succeeded.
  std::vector<IpPrefix> addresses = {};
  bool is_ipv6_router = false;  ///< the interface forwards IPv6
  ArpPolicy arp = {};
  /// What the kernel takes for its own IPv4 addresses: the interface's, those of others, and local
  /// routes (`ip route add local`). Without loopback addresses.
  std::vector<IpPrefix> local = {};
  /// Addresses with the scope "host", if `arp.ignore` is 3, else empty.
  std::vector<Ipv4Address> of_host_scope = {};
  /// Routes of both families through the interface, in every table except the kernel's local table.
  std::vector<RoutingTable> tables = {};
  /// Rules of both families, in the kernel's order.
  std::vector<RoutingRule> rules = {};
  /// Multicast groups that the host has joined on the interface. The all-nodes groups may be
  /// missing.
  std::vector<IpAddress> groups = {};
  std::size_t routes_left_out = 0;  ///< beyond kMaxRoutes
  friend bool operator==(const HostView&, const HostView&) = default;
};

}  // namespace ipoib
