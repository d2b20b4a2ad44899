#include "host_route.hpp"

#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
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

using Message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;
using Route = std::unique_ptr<rtnl_route, decltype(&rtnl_route_put)>;

/// Asks for the route, as rtnl_route_lookup() does, which knows no interface. Null without memory.
Message request_for(const ibarp_address& address, const std::string& device) {
  Message message(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST), &nlmsg_free);
  const auto size = static_cast<int>(size_of(address.family));
  rtmsg header{};
  header.rtm_family = static_cast<unsigned char>(address.family);
  header.rtm_dst_len = static_cast<unsigned char>(size * 8);
  bool is_built = message &&
                  nlmsg_append(message.get(), &header, sizeof header, NLMSG_ALIGNTO) >= 0 &&
                  nla_put(message.get(), RTA_DST, size, address.bytes) >= 0;
  if (!device.empty()) {
    const unsigned index = ::if_nametoindex(device.c_str());
    if (index == 0) throw Failure(kFailed, "there is no interface " + device);
    is_built = is_built && nla_put_u32(message.get(), RTA_OIF, index) >= 0;
  }
  if (!is_built) message.reset();
  return message;
}

int keep_route(nl_msg* message, void* route) {
  rtnl_route* found = nullptr;
  if (rtnl_route_parse(nlmsg_hdr(message), &found) >= 0) static_cast<Route*>(route)->reset(found);
  return NL_OK;
}

}  // namespace

bool is_of_one_link(const ibarp_address& address) {
  constexpr unsigned kLinkScope = 2;
  if (address.family != AF_INET6) return false;
  if (address.bytes[0] == 0xff) return (address.bytes[1] & 0x0fU) <= kLinkScope;
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0U) == 0x80;
}

std::optional<HostRoute> host_route(const ibarp_address& address, const std::string& device) {
  const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(),
                                                                   &nl_socket_free);
  const Message request = request_for(address, device);
  const int error = socket && request ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM;
  if (error < 0) {
    throw Failure(kFailed,
                  std::string("the kernel cannot be asked for a route: ") + nl_geterror(error));
  }
  Route route(nullptr, &rtnl_route_put);
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, &keep_route, &route);
  const bool is_answered =
      nl_send_auto(socket.get(), request.get()) >= 0 && nl_recvmsgs_default(socket.get()) >= 0;
  if (!is_answered || !route) return std::nullopt;
  rtnl_route* const found = route.get();
  HostRoute out;
  std::array<char, 32> type{};
  out.type = nl_rtntype2str(rtnl_route_get_type(found), type.data(), type.size());
  out.source = address_of(rtnl_route_get_pref_src(found));
  if (auto* const hop = rtnl_route_nexthop_n(found, 0); hop != nullptr) {
    std::array<char, IF_NAMESIZE> name{};
    if (::if_indextoname(static_cast<unsigned>(rtnl_route_nh_get_ifindex(hop)), name.data()) !=
        nullptr) {
      out.device = name.data();
    }
    out.gateway = address_of(rtnl_route_nh_get_gateway(hop));
    if (!out.gateway) out.gateway = address_of(rtnl_route_nh_get_via(hop));
  }
  return out;
}

}  // namespace ipoib::ibarp
