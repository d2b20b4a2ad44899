// The kernel has a route of the type "local" for each of its addresses, usually in the table
// "local", but for the interfaces of a VRF in the VRF's table.
#include "linux/local_addresses.hpp"

#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

struct LocalRoute {
  std::uint32_t table = 0;
  int interface = 0;
  IpPrefix prefix;
};

std::optional<LocalRoute> local_route_of(nlmsghdr* message) {
  if (!is_local_route(message)) return {};
  const auto* const header = header_of<rtmsg>(message);
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  const auto address = address_of(attributes[RTA_DST], AF_INET);
  const auto interface = number_of(attributes[RTA_OIF]);
  if (!address || !interface || std::get<Ipv4Address>(*address).is_loopback()) return {};
  return LocalRoute{number_of(attributes[RTA_TABLE]).value_or(header->rtm_table),
                    static_cast<int>(*interface),
                    {*address, header->rtm_dst_len}};
}

Result<void> read_addresses_of_larger_scope(nl_sock* socket, HostView& out) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  return netlink_dump(
      socket, {.type = RTM_GETADDR, .header = bytes_of(header), .out_interface = 0},
      [&] { out.of_larger_scope.clear(); },
      [&](nlmsghdr* message) {
        const auto* const about = header_of<ifaddrmsg>(message);
        if (about == nullptr || about->ifa_scope >= RT_SCOPE_HOST) return;
        const auto attributes = attributes_of<IFA_MAX>(message, sizeof *about);
        if (const auto address = address_of(attributes[IFA_LOCAL], AF_INET)) {
          out.of_larger_scope.push_back(std::get<Ipv4Address>(*address));
        }
      });
}

/// The parts of an RTM_NEWROUTE message that are used here.
struct Found {
  std::uint8_t type = RTN_UNSPEC;
  std::optional<std::uint32_t> interface;
};
int note_route(nl_msg* message, void* argument) {
  auto* const raw = nlmsg_hdr(message);
  const auto* const header = header_of<rtmsg>(raw);
  if (header == nullptr || raw->nlmsg_type != RTM_NEWROUTE) return NL_OK;
  const auto attributes = attributes_of<RTA_MAX>(raw, sizeof *header);
  *static_cast<Found*>(argument) = {header->rtm_type, number_of(attributes[RTA_OIF])};
  return NL_OK;
}

bool put(nl_msg* message, int attribute, Ipv4Address address) {
  return nla_put(message, attribute, Ipv4Address::kSize, address.bytes().data()) >= 0;
}

}  // namespace

bool is_local_route(nlmsghdr* message) {
  const auto* const header = header_of<rtmsg>(message);
  return header != nullptr && header->rtm_family == AF_INET && header->rtm_type == RTN_LOCAL;
}

Result<void> read_local_addresses(nl_sock* socket, int interface_index, HostView& out) {
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_type = RTN_LOCAL;
  std::vector<LocalRoute> routes;
  auto read = netlink_dump(
      socket, {.type = RTM_GETROUTE, .header = bytes_of(header), .out_interface = 0},
      [&] { routes.clear(); },
      [&](nlmsghdr* message) {
        if (routes.size() >= HostView::kMaxRoutes) return;
        if (const auto route = local_route_of(message)) routes.push_back(*route);
      });
  if (!read) return read.error();
  const auto own = std::ranges::find(routes, interface_index, &LocalRoute::interface);
  const std::uint32_t table = own != routes.end() ? own->table : RT_TABLE_LOCAL;
  for (const LocalRoute& route : routes) {
    if (route.table == table) out.local.push_back(route.prefix);
  }
  return read_addresses_of_larger_scope(socket, out);
}

Result<std::vector<Ipv4Address>> read_proxied(nl_sock* socket, int interface_index) {
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_flags = NTF_PROXY;
  std::vector<Ipv4Address> found;
  const auto read = netlink_dump(
      socket, {.type = RTM_GETNEIGH, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        const auto* const about = header_of<ndmsg>(message);
        if (about == nullptr || about->ndm_ifindex != interface_index ||
            (about->ndm_flags & NTF_PROXY) == 0 || found.size() >= HostView::kMaxProxied) {
          return;
        }
        const auto attributes = attributes_of<NDA_MAX>(message, sizeof *about);
        if (const auto address = address_of(attributes[NDA_DST], AF_INET)) {
          found.push_back(std::get<Ipv4Address>(*address));
        }
      });
  if (!read) return read.error();
  std::ranges::sort(found);
  return found;
}

std::optional<int> out_interface(nl_sock* socket, const RouteQuery& query) {
  const std::unique_ptr<nl_msg, decltype(&nlmsg_free)> message(
      nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST), &nlmsg_free);
  constexpr std::uint8_t kBits = 32;
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_dst_len = kBits;
  header.rtm_src_len = kBits;
  const bool built =
      message && nlmsg_append(message.get(), &header, sizeof header, NLMSG_ALIGNTO) >= 0 &&
      put(message.get(), RTA_DST, query.destination) && put(message.get(), RTA_SRC, query.source) &&
      (query.in_interface == 0 ||
       nla_put_u32(message.get(), RTA_IIF, static_cast<std::uint32_t>(query.in_interface)) >= 0);
  if (!built) return std::nullopt;
  Found found;
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, &note_route, &found);
  // libnl asks for an ACK, which follows the route; an error takes the place of both.
  if (nl_send_auto(socket, message.get()) < 0 || nl_recvmsgs_default(socket) < 0 ||
      nl_wait_for_ack(socket) < 0 || found.type != RTN_UNICAST || !found.interface) {
    return std::nullopt;
  }
  return static_cast<int>(*found.interface);
}

}  // namespace ipoib::linux
