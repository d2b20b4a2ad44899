// Routes of a host that has every address on its link.
#pragma once

#include <vector>

#include "ipoib/host_routes.hpp"

namespace ipoib::test {

/// As of `ip route add default dev ib0`, for both families.
inline std::vector<RoutingTable> all_on_link() {
  constexpr std::uint32_t kMain = 254;
  const auto to_all = [](IpAddress unspecified) {
    return HostRoute{.destination = {unspecified, 0}, .metric = 0, .hops = {RouteHop{}}};
  };
  return {{kMain, {to_all(Ipv4Address()), to_all(Ipv6Address())}}};
}

}  // namespace ipoib::test
