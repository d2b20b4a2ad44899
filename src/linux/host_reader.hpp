// Reads the host's configuration of an interface from the kernel's tables.
#pragma once

#include <optional>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"
#include "linux/route_reader.hpp"

struct nl_sock;
struct nlmsghdr;

namespace ipoib::linux {

/// Reads addresses, forwarding, routes and rules of one interface with this policy. `socket` is
/// blocking and, if the kernel has it, uses strict checking, so that dumps contain only this
/// interface.
[[nodiscard]] Result<HostView> read_host_view(nl_sock* socket, const InterfaceName& interface,
                                              const ArpPolicy& arp);

struct InterfaceAddress {
  int interface_index = 0;
  IpPrefix prefix;
};
/// The address in a message; nullopt if it is tentative or a duplicate (RFC 4862, 5.4).
[[nodiscard]] std::optional<InterfaceAddress> usable_address_of(nlmsghdr* message);

/// Whether a notification may change what read_host_view() reads.
[[nodiscard]] bool concerns_host_view(nlmsghdr* message, int interface_index);

/// Whether such a notification is about routes, rules or nexthop objects, but not about what
/// read_local_addresses() reads.
[[nodiscard]] bool concerns_only_routes(nlmsghdr* message);

/// Whether a notification says that the kernel has removed IPv6 from the interface, which went down
/// or had IPv6 disabled; both may have changed again since.
[[nodiscard]] bool announces_ipv6_removal(nlmsghdr* message, int interface_index);

}  // namespace ipoib::linux
