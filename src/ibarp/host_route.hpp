// The route of the host to an address, as of ip(8) route get.
#pragma once

#include <optional>
#include <string>

#include "ipoib/ibarp.h"

namespace ipoib::ibarp {

struct HostRoute {
  std::string device;  ///< empty if the route has none, such as one of type unreachable
  std::string type;    ///< "unicast", "local", "broadcast", "multicast", "unreachable", ...
  std::optional<ibarp_address> gateway;
  std::optional<ibarp_address> source;
};

/// The route of a packet of this host to the address. Returns nullopt if there is none, or if it
/// refuses packets. Throws Failure if the kernel cannot be asked.
[[nodiscard]] std::optional<HostRoute> host_route(const ibarp_address& address);

}  // namespace ipoib::ibarp
