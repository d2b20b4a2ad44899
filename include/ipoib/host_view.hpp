// What the host has configured on an interface at one moment, mirrored from the kernel: a value,
// taken by who speaks netlink and handed by message to who owns the link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/ip_prefix.hpp"

namespace ipoib {

/// One way of a route that leads through the interface.
struct RouteHop {
  std::optional<IpAddress> gateway;  ///< none: the destination is on the link
  std::uint16_t weight = 1;          ///< its share among the ways of the route
  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

/// A unicast route of one table, with those of its ways that lead through the interface.
struct HostRoute {
  IpPrefix destination;
  std::uint32_t metric = 0;
  std::vector<RouteHop> hops;  ///< at least one
  friend bool operator==(const HostRoute&, const HostRoute&) = default;
};

/// A rule that leads to a table, with what a packet shows of its conditions. The others (mark,
/// user, interface, ...) cannot be seen in a packet: it may have met them.
struct RoutingRule {
  IpFamily family = IpFamily::v4;
  std::uint32_t table = 0;
  std::optional<IpPrefix> source = {};
  std::optional<IpPrefix> destination = {};
  bool is_certain = true;  ///< it has no other conditions
  /// Routes whose prefixes have as many bits or fewer do not count (suppress_prefixlength).
  std::optional<std::uint8_t> ignored_bits = {};
  friend bool operator==(const RoutingRule&, const RoutingRule&) = default;
};

struct RoutingTable {
  std::uint32_t id = 0;
  std::vector<HostRoute> routes;
  friend bool operator==(const RoutingTable&, const RoutingTable&) = default;
};

struct HostView {
  /// More routes of one family through the interface are not mirrored; the mirror says so.
  static constexpr std::size_t kMaxRoutes = 65536;
  static constexpr std::size_t kMaxRules = 4096;

  /// The interface's addresses with their prefixes, in the kernel's order; of those of IPv6 only
  /// the ones that duplicate address detection has left to it.
  std::vector<IpPrefix> addresses = {};
  bool is_ipv6_router = false;  ///< it forwards what comes in through the interface
  /// Routes through the interface, of both families, in every table but the kernel's own of local
  /// addresses.
  std::vector<RoutingTable> tables = {};
  /// In the order in which the kernel goes through them; those of either family.
  std::vector<RoutingRule> rules = {};
  /// Multicast groups that the host is in on the interface; those of all nodes may be missing.
  std::vector<IpAddress> groups = {};
  std::size_t routes_left_out = 0;  ///< beyond kMaxRoutes
  friend bool operator==(const HostView&, const HostView&) = default;
};

}  // namespace ipoib
