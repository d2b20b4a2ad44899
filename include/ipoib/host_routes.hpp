// Routes and rules of the host that concern an interface, mirrored from the kernel.
#pragma once

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
  /// The preference of a router (RFC 4191, 2.1), the best first.
  enum class Preference : std::uint8_t { high, medium, low };
  IpPrefix destination;
  std::uint32_t metric = 0;
  std::vector<RouteHop> hops;  ///< at least one
  std::uint8_t tos = 0;        ///< 0: for any
  Preference preference = Preference::medium;
  std::uint32_t nexthop = 0;             ///< id of the nexthop object that has `hops`; 0: none
  std::optional<IpAddress> source = {};  ///< of packets ("src"): the route goes with the address
  friend bool operator==(const HostRoute&, const HostRoute&) = default;
};

/// A nexthop object (ip-nexthop(8)): a next hop, or a group of such objects.
struct NextHopObject {
  struct Member {
    std::uint32_t id = 0;
    std::uint16_t weight = 1;
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::uint32_t id = 0;
  std::optional<RouteHop> hop = {};  ///< through the interface
  std::vector<Member> members = {};  ///< of a group
  friend bool operator==(const NextHopObject&, const NextHopObject&) = default;
};

/// The ports from `first` to `last`, both included.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// A rule that selects a table or leads to another rule (ip-rule(8)), with the conditions that a
/// packet shows. A packet may or may not match the others (mark, user, ...).
struct RoutingRule {
  /// The interface that a packet has come from ("iif").
  enum class Input : std::uint8_t {
    any,
    host,     ///< "lo": sent by the host itself
    network,  ///< forwarded, from one interface
  };
  IpFamily family = IpFamily::v4;
  std::uint32_t table = 0;
  std::optional<IpPrefix> source = {};
  std::optional<IpPrefix> destination = {};
  bool is_certain = true;  ///< the rule has no other conditions
  /// Routes with prefixes of at most this length are ignored (suppress_prefixlength).
  std::optional<std::uint8_t> ignored_bits = {};
  std::uint32_t priority = 0;
  std::optional<std::uint32_t> jump = {};  ///< to the rule with this priority, instead of a table
  std::uint8_t tos = 0;                    ///< 0: any
  std::optional<std::uint8_t> protocol = {};
  std::optional<PortRange> source_ports = {};
  std::optional<PortRange> destination_ports = {};
  Input input = Input::any;
  bool never = false;        ///< "oif" is another interface
  bool is_inverted = false;  ///< applies where the conditions do not hold
  friend bool operator==(const RoutingRule&, const RoutingRule&) = default;
};

/// A gateway that the host uses for one destination, since a router has said so by ICMP.
struct Redirect {
  IpAddress destination;
  IpAddress gateway;
  friend bool operator==(const Redirect&, const Redirect&) = default;
};

struct RoutingTable {
  std::uint32_t id = 0;
  std::vector<HostRoute> routes;
  friend bool operator==(const RoutingTable&, const RoutingTable&) = default;
};

}  // namespace ipoib
