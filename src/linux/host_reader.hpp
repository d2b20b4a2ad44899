// Reads what the host has configured on an interface out of the kernel's tables.
#pragma once

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"

struct nl_sock;
struct nlmsghdr;

namespace ipoib::host {

/// Addresses, forwarding, routes and rules as they concern one interface. `socket` blocks, and asks
/// for strict checking where the kernel has it: then only what concerns the interface is listed at
/// all.
[[nodiscard]] Result<HostView> read_host_view(nl_sock* socket, int interface_index);

/// Whether a notification may change what read_host_view() reads.
[[nodiscard]] bool concerns_host_view(nlmsghdr* message, int interface_index);

/// Whether it says that the kernel has taken the IPv6 addresses off the interface: this went down,
/// or IPv6 was disabled on it, in whatever state both are by now.
[[nodiscard]] bool tells_end_of_ipv6(nlmsghdr* message, int interface_index);

}  // namespace ipoib::host
