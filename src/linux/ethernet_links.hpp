// What the view of a TAP needs to know about other network interfaces of the host: the bridge that
// the TAP is a port of, and the MACs of all.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/mac_address.hpp"
#include "ipoib/result.hpp"
#include "linux/route_reader.hpp"

struct nl_sock;
struct rtnl_link;

namespace ipoib::host {

[[nodiscard]] std::optional<MacAddress> mac_of(rtnl_link* link);

struct Bridge {
  InterfaceName interface;
  std::optional<MacAddress> mac;
};
/// Returns nullopt if the interface is not a port of a bridge of the kernel.
[[nodiscard]] std::optional<Bridge> bridge_of(nl_sock* socket, rtnl_link* port);

/// Of all interfaces of the network namespace with an Ethernet address, at most kMaxMacs.
[[nodiscard]] Result<std::vector<MacAddress>> read_macs(nl_sock* socket);
inline constexpr std::size_t kMaxMacs = 4096;

}  // namespace ipoib::host
