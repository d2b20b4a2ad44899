// Changes of routes and rules, as the kernel announces them. Each can be made again, if all later
// ones are as well, with the same result.
#pragma once

#include <cstdint>
#include <variant>

#include "ipoib/host_routes.hpp"

namespace ipoib {

/// A route was added, or has replaced those with its prefix, TOS and metric. Without next hops, it
/// leads through other interfaces.
struct RouteAdded {
  /// Among the routes with the same prefix, TOS and metric.
  enum class Place : std::uint8_t { first, last, instead };
  std::uint32_t table = 0;
  HostRoute route;
  Place place = Place::last;
};
/// A route, or some of its next hops.
struct RouteRemoved {
  std::uint32_t table = 0;
  HostRoute route;
};
struct RuleChanged {
  RoutingRule rule;
  bool is_added = true;
};
struct NextHopChanged {
  NextHopObject object;
  bool is_there = true;  ///< false: removed, with the routes that use it
};
/// The host has lost an address, and with it the routes that have it as the source, in silence.
struct SourceRemoved {
  IpAddress address;
};
/// The interface is down: all routes through it are gone, in silence.
struct RoutesCleared {};
/// What the kernel has announced is incomplete: only a new HostView tells.
struct RoutesUnknown {};
using RouteChange = std::variant<RouteAdded, RouteRemoved, RuleChanged, NextHopChanged,
                                 SourceRemoved, RoutesCleared, RoutesUnknown>;

}  // namespace ipoib
