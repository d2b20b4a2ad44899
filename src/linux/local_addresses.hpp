// Reads what the kernel takes for addresses of the host, and how it routes to an address, for
// responses to ARP requests.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"

struct nl_sock;
struct nlmsghdr;

namespace ipoib::linux {

/// Reads HostView::local and `of_larger_scope`. In a VRF the host's addresses are those of the VRF.
[[nodiscard]] Result<void> read_local_addresses(nl_sock* socket, int interface_index,
                                                HostView& out);

/// Whether a message is about a route that read_local_addresses() reads.
[[nodiscard]] bool is_local_route(nlmsghdr* message);

/// Reads HostView::proxied, sorted, whether or not the interface forwards.
[[nodiscard]] Result<std::vector<Ipv4Address>> read_proxied(nl_sock* socket, int interface_index);

/// A look-up in the kernel's routing tables: for a packet of the host, or for one that has been
/// received on `in_interface`.
struct RouteQuery {
  Ipv4Address destination;
  Ipv4Address source;
  int in_interface = 0;  ///< 0: a packet of the host
};
/// Returns the interface through which the kernel sends the packet by a unicast route; nullopt if
/// it does not, or does not accept the packet (rp_filter).
[[nodiscard]] std::optional<int> out_interface(nl_sock* socket, const RouteQuery& query);

}  // namespace ipoib::linux
