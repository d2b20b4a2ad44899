// Reads routes, rules and redirects from the kernel's tables.
#pragma once

#include <cstdint>
#include <string>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"

struct nl_sock;
struct nlmsghdr;

namespace ipoib::host {

/// An interface, by index and by name.
struct InterfaceName {
  int index = 0;
  std::string name;
};

/// Adds the routes through the interface, the redirects that the kernel follows there, and the
/// rules, of both families.
[[nodiscard]] Result<void> read_routing(nl_sock* socket, const InterfaceName& interface,
                                        HostView& out);

/// Whether a message about a route is about one through the interface. One that names only a
/// nexthop object (ip-nexthop(8)) may be.
[[nodiscard]] bool route_concerns(nlmsghdr* message, int interface_index);

}  // namespace ipoib::host
