#include "host_route.hpp"

#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/errno.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/route/rtnl.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "command.hpp"

namespace ipoib::ibarp {

namespace {

std::size_t size_of(int family) { return family == AF_INET ? 4 : 16; }

/// Returns nullopt if there is no address, or if it is not an IP address.
std::optional<ibarp_address> address_of(nl_addr* address) {
  if (address == nullptr) return std::nullopt;
  ibarp_address out{nl_addr_get_family(address), {}};
  if (out.family != AF_INET && out.family != AF_INET6) return std::nullopt;
  if (nl_addr_get_len(address) != size_of(out.family)) return std::nullopt;
  const auto* const bytes = static_cast<const std::uint8_t*>(nl_addr_get_binary_addr(address));
  std::copy_n(bytes, size_of(out.family), out.bytes);
  return out;
}

}  // namespace

std::optional<HostRoute> host_route(const ibarp_address& address) {
  const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(),
                                                                   &nl_socket_free);
  const std::unique_ptr<nl_addr, decltype(&nl_addr_put)> to(
      nl_addr_build(address.family, address.bytes, size_of(address.family)), &nl_addr_put);
  const int error = socket && to ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM;
  if (error < 0) {
    throw Failure(kFailed,
                  std::string("the kernel cannot be asked for a route: ") + nl_geterror(error));
  }
  rtnl_route* found = nullptr;
  if (rtnl_route_lookup(socket.get(), to.get(), &found) < 0) return std::nullopt;
  const std::unique_ptr<rtnl_route, decltype(&rtnl_route_put)> route(found, &rtnl_route_put);
  HostRoute out;
  std::array<char, 32> type{};
  out.type = nl_rtntype2str(rtnl_route_get_type(found), type.data(), type.size());
  out.source = address_of(rtnl_route_get_pref_src(found));
  if (auto* const hop = rtnl_route_nexthop_n(found, 0); hop != nullptr) {
    std::array<char, IF_NAMESIZE> device{};
    if (::if_indextoname(static_cast<unsigned>(rtnl_route_nh_get_ifindex(hop)), device.data()) !=
        nullptr) {
      out.device = device.data();
    }
    out.gateway = address_of(rtnl_route_nh_get_gateway(hop));
    if (!out.gateway) out.gateway = address_of(rtnl_route_nh_get_via(hop));
  }
  return out;
}

}  // namespace ipoib::ibarp
