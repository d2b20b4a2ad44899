// rtnetlink(7) messages about routes, rules and nexthop objects, of dumps and of notifications. A
// missing attribute, or one of the wrong size, leaves the default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ipoib/route_changes.hpp"

struct nlmsghdr;

namespace ipoib::linux {

/// An interface, by index and by name.
struct InterfaceName {
  int index = 0;
  std::string name;
};

struct RouteOfTable {
  std::uint32_t table = 0;
  HostRoute route;
};

/// The next hops through the interface, by the id of a nexthop object or of a group of them.
using NextHopObjects = std::unordered_map<std::uint32_t, std::vector<RouteHop>>;

/// The unicast route through the interface in a message; nullopt for routes of the local table.
[[nodiscard]] std::optional<RouteOfTable> route_of(nlmsghdr* message, int interface_index,
                                                   const NextHopObjects& objects);
[[nodiscard]] std::optional<Redirect> redirect_of(nlmsghdr* message, int interface_index);
/// The rule in a message, if it leads to a table or to another rule.
[[nodiscard]] std::optional<RoutingRule> rule_of(nlmsghdr* message, const std::string& interface);
/// The nexthop object in a message; without a next hop if it is of another interface.
[[nodiscard]] std::optional<NextHopObject> nexthop_of(nlmsghdr* message, int interface_index);

/// The change of the routes through the interface that a notification announces; nullopt if it is
/// about something else, such as the interface itself.
[[nodiscard]] std::optional<RouteChange> route_change_of(nlmsghdr* message,
                                                         const InterfaceName& interface);

/// Whether a message may be about a route through the interface. That is so if it names only a
/// nexthop object (ip-nexthop(8)).
[[nodiscard]] bool route_concerns(nlmsghdr* message, int interface_index);

}  // namespace ipoib::linux
