// Changes of routes and rules, as the kernel announces them. A change can be repeated with the same
// result, if all later ones are repeated as well.
#pragma once

#include <cstdint>
#include <variant>

#include "ipoib/host_routes.hpp"

namespace ipoib {

/// A route was added, or has replaced those with its prefix, TOS and metric. Without next hops, it
/// leads through other interfaces.
struct RouteAdded {
  /// The position of the new route among those with the same prefix, TOS and metric.
  enum class Position : std::uint8_t { first, last, instead };
  std::uint32_t table = 0;
  HostRoute route;
  Position position = Position::last;
};
/// A route, or some of its next hops, was removed.
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
/// Announcements of the kernel were lost: only a new HostView has all routes.
struct RoutesUnknown {};
using RouteChange = std::variant<RouteAdded, RouteRemoved, RuleChanged, NextHopChanged,
                                 SourceRemoved, RoutesCleared, RoutesUnknown>;

}  // namespace ipoib
