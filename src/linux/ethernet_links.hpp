// Reads what the view of a TAP needs to know about other network interfaces of the host: the bridge
// or bond that the TAP is a port of, and the MACs of all.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/result.hpp"
#include "linux/route_reader.hpp"

struct nlattr;
struct nl_sock;
struct nlmsghdr;
struct rtnl_link;

namespace ipoib::linux {

[[nodiscard]] std::optional<MacAddress> mac_of(rtnl_link* link);

/// A bridge or bond of the kernel, which has the host's addresses in place of its ports.
struct Master {
  InterfaceName interface;
  std::optional<MacAddress> mac;
};
/// The master of a port, or of the bond that the port belongs to. Returns nullopt if there is none.
[[nodiscard]] std::optional<Master> master_of(nl_sock* socket, rtnl_link* port);
/// The longest chain of masters: a port of a bond can be a port of a bridge.
inline constexpr int kMaxMasters = 3;

struct EthernetLinks {
  std::vector<MacAddress> macs;        ///< HostView::macs, at most kMaxMacs; sorted
  std::vector<LinkAddress> addresses;  ///< HostView::link_addresses, at most kMaxLinkAddresses
  bool is_backup = false;  ///< `port` belongs to a bond, and another of its ports is in use
};
/// Reads the links of the socket's network namespace.
[[nodiscard]] Result<EthernetLinks> read_ethernet_links(nl_sock* socket, int port);
inline constexpr std::size_t kMaxMacs = 4096;
inline constexpr std::size_t kMaxLinkAddresses = 16384;

/// Whether a notification may change what read_ethernet_links() reads.
[[nodiscard]] bool concerns_ethernet_links(nlmsghdr* message);

/// Whether IFLA_LINKINFO is that of a macvtap or ipvtap interface, whose MAC is that of a virtual
/// machine.
[[nodiscard]] bool is_tap_of_a_guest(const nlattr* link_info);

/// Whether IFLA_LINKINFO is that of a port of a bond that is not in use.
[[nodiscard]] bool is_backup_port(const nlattr* link_info);

}  // namespace ipoib::linux
