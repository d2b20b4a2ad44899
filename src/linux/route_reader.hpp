// Reads routes, rules and redirects from the kernel's tables.
#pragma once

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"
#include "linux/route_messages.hpp"

struct nl_sock;

namespace ipoib::linux {

/// Adds the routes through the interface, the redirects that the kernel follows there, and the
/// rules, of both families.
[[nodiscard]] Result<void> read_routing(nl_sock* socket, const InterfaceName& interface,
                                        HostView& out);

}  // namespace ipoib::linux
