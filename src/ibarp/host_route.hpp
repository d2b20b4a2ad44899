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

/// Whether the address means something on one link only: of IPv6, fe80::/10, and groups of that
/// scope or a smaller one (RFC 4007, section 5).
[[nodiscard]] bool is_of_one_link(const ibarp_address& address);

/// The route of a packet of this host to the address, by an interface unless its name is empty.
/// Returns nullopt if there is none, or if it refuses packets. Throws Failure if there is no such
/// interface, or if the kernel cannot be asked.
[[nodiscard]] std::optional<HostRoute> host_route(const ibarp_address& address,
                                                  const std::string& device = {});

}  // namespace ipoib::ibarp
