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

namespace ipoib::host {

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

/// A unicast route through the interface; none for those of the local table.
[[nodiscard]] std::optional<RouteOfTable> route_of(nlmsghdr* message, int interface_index,
                                                   const NextHopObjects& objects);
[[nodiscard]] std::optional<Redirect> redirect_of(nlmsghdr* message, int interface_index);
/// A rule that leads to a table or to another rule.
[[nodiscard]] std::optional<RoutingRule> rule_of(nlmsghdr* message, const std::string& interface);
/// Of any interface: without a next hop if that is another one.
[[nodiscard]] std::optional<NextHopObject> nexthop_of(nlmsghdr* message, int interface_index);

/// What a notification says about the routes through the interface; none for one about other
/// things, also about the interface itself.
[[nodiscard]] std::optional<RouteChange> route_change_of(nlmsghdr* message,
                                                         const InterfaceName& interface);

/// Whether a message about a route is about one through the interface. One that names only a
/// nexthop object (ip-nexthop(8)) may be.
[[nodiscard]] bool route_concerns(nlmsghdr* message, int interface_index);

}  // namespace ipoib::host
