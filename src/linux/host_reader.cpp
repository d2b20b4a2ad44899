// Converts rtnetlink(7) messages to values. A missing attribute, or one of the wrong size, leaves
// the default.
#include "linux/host_reader.hpp"

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "linux/local_addresses.hpp"
#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::host {
namespace {

// RTM_NEWMULTICAST and RTM_DELMULTICAST, missing in older headers.
constexpr int kNewMulticast = RTM_GETMULTICAST - 2;
constexpr int kDeleteMulticast = RTM_GETMULTICAST - 1;

/// The gateway, possibly of another family than the route (RTA_VIA: family in host byte order, then
/// address; RFC 5549).
std::optional<IpAddress> gateway_of(const nlattr* gateway, const nlattr* via, int family) {
  if (gateway != nullptr) return address_of(gateway, family);
  if (via == nullptr || nla_len(via) < static_cast<int>(sizeof(rtvia))) return std::nullopt;
  const auto* const data = static_cast<const std::uint8_t*>(nla_data(via));
  std::uint16_t of = 0;
  std::memcpy(&of, data, sizeof of);
  const auto size = static_cast<std::size_t>(nla_len(via)) - sizeof of;
  return address_of(ConstBytes(data + sizeof of, size), of);
}

/// Calls `visit` with interface, gateway and weight of each next hop of a route.
template <class Visit>
void for_each_hop(const Attributes<RTA_MAX>& attributes, int family, Visit&& visit) {
  if (nlattr* const several = attributes[RTA_MULTIPATH]; several != nullptr) {
    const auto* hop = static_cast<const rtnexthop*>(nla_data(several));
    int left = nla_len(several);
    while (left >= static_cast<int>(sizeof *hop) && RTNH_OK(hop, left)) {
      Attributes<RTA_MAX> own{};
      auto* const first = reinterpret_cast<nlattr*>(RTNH_DATA(hop));
      const int size = hop->rtnh_len - static_cast<int>(RTNH_LENGTH(0));
      (void)nla_parse(own.data(), RTA_MAX, first, size, nullptr);
      visit(hop->rtnh_ifindex, RouteHop{gateway_of(own[RTA_GATEWAY], own[RTA_VIA], family),
                                        static_cast<std::uint16_t>(hop->rtnh_hops + 1)});
      left -= static_cast<int>(RTNH_ALIGN(hop->rtnh_len));
      hop = RTNH_NEXT(hop);
    }
    return;
  }
  if (const auto interface = number_of(attributes[RTA_OIF])) {
    visit(static_cast<int>(*interface),
          RouteHop{gateway_of(attributes[RTA_GATEWAY], attributes[RTA_VIA], family), 1});
  }
}

/// Returns nullopt for another interface's address, and for one that is tentative or a duplicate
/// (RFC 4862, 5.4).
std::optional<IpPrefix> own_address_of(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<ifaddrmsg>(message);
  if (header == nullptr || static_cast<int>(header->ifa_index) != interface_index) return {};
  const auto attributes = attributes_of<IFA_MAX>(message, sizeof *header);
  const auto flags = number_of(attributes[IFA_FLAGS]).value_or(header->ifa_flags);
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return {};
  // On point-to-point links IFA_ADDRESS is the peer's; IPv6 has IFA_LOCAL only there.
  const nlattr* const local = attributes[IFA_LOCAL];
  const auto address =
      address_of(local != nullptr ? local : attributes[IFA_ADDRESS], header->ifa_family);
  if (!address) return {};
  return IpPrefix{*address, header->ifa_prefixlen};
}

struct RouteOfTable {
  std::uint32_t table = 0;
  HostRoute route;
};

std::optional<RouteOfTable> route_of(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr || header->rtm_type != RTN_UNICAST ||
      (header->rtm_flags & RTM_F_CLONED) != 0) {
    return {};
  }
  const int family = header->rtm_family;
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  RouteOfTable found{.table = number_of(attributes[RTA_TABLE]).value_or(header->rtm_table),
                     .route = {}};
  if (found.table == RT_TABLE_LOCAL) return {};
  found.route.destination = {address_of(attributes[RTA_DST], family).value_or(unspecified(family)),
                             header->rtm_dst_len};
  found.route.metric = number_of(attributes[RTA_PRIORITY]).value_or(0);
  for_each_hop(attributes, family, [&](int interface, const RouteHop& hop) {
    if (interface == interface_index) found.route.hops.push_back(hop);
  });
  if (found.route.hops.empty()) return {};
  return found;
}

std::optional<IpPrefix> prefix_of(const nlattr* attribute, int family, std::uint8_t bits) {
  const auto address = address_of(attribute, family);
  if (!address || bits == 0) return std::nullopt;
  return IpPrefix{*address, bits};
}

/// Conditions of a rule besides the two addresses.
constexpr std::array kUnseenConditions{FRA_IIFNAME,   FRA_OIFNAME,     FRA_FWMARK,      FRA_TUN_ID,
                                       FRA_UID_RANGE, FRA_SPORT_RANGE, FRA_DPORT_RANGE, FRA_L3MDEV};

std::optional<RoutingRule> rule_of(nlmsghdr* message) {
  const auto* const header = header_of<fib_rule_hdr>(message);
  if (header == nullptr || header->action != FR_ACT_TO_TBL) return {};
  const int family = header->family;
  if (family != AF_INET && family != AF_INET6) return {};
  const auto attributes = attributes_of<FRA_MAX>(message, sizeof *header);
  const bool asks_for_more = std::ranges::any_of(
      kUnseenConditions, [&](std::size_t condition) { return attributes[condition] != nullptr; });
  const auto protocol = attributes[FRA_IP_PROTO];
  RoutingRule rule{.family = family == AF_INET ? IpFamily::v4 : IpFamily::v6,
                   .table = number_of(attributes[FRA_TABLE]).value_or(header->table),
                   .source = prefix_of(attributes[FRA_SRC], family, header->src_len),
                   .destination = prefix_of(attributes[FRA_DST], family, header->dst_len),
                   .is_certain = !asks_for_more && protocol == nullptr && header->tos == 0 &&
                                 (header->flags & FIB_RULE_INVERT) == 0,
                   .ignored_bits = {}};
  const auto ignored = number_of(attributes[FRA_SUPPRESS_PREFIXLEN]);
  if (ignored && *ignored <= 128) rule.ignored_bits = static_cast<std::uint8_t>(*ignored);
  // An inverted rule excludes a prefix and may apply to any other.
  if ((header->flags & FIB_RULE_INVERT) != 0) rule.source = rule.destination = std::nullopt;
  return rule;
}

Result<void> read_addresses(nl_sock* socket, int interface_index, std::uint8_t family,
                            HostView& out) {
  ifaddrmsg header{};
  header.ifa_family = family;
  header.ifa_index = static_cast<std::uint32_t>(interface_index);
  std::vector<IpPrefix> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETADDR, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (const auto address = own_address_of(message, interface_index))
          found.push_back(*address);
      });
  out.addresses.insert(out.addresses.end(), found.begin(), found.end());
  return read;
}

/// Content of an RTM_NEWNETCONF message: the interface, and whether it forwards, if given.
struct NetConf {
  int interface_index = 0;
  std::optional<bool> forwards;
};
NetConf netconf_of(nlmsghdr* message) {
  const auto attributes = attributes_of<NETCONFA_MAX>(message, sizeof(netconfmsg));
  const auto forwards = number_of(attributes[NETCONFA_FORWARDING]);
  return {.interface_index = static_cast<int>(number_of(attributes[NETCONFA_IFINDEX]).value_or(0)),
          .forwards = forwards ? std::optional(*forwards != 0) : std::nullopt};
}

Result<void> read_forwarding(nl_sock* socket, int interface_index, HostView& out) {
  netconfmsg header{};
  header.ncm_family = AF_INET6;
  return netlink_dump(
      socket, {.type = RTM_GETNETCONF, .header = bytes_of(header), .out_interface = 0}, [] {},
      [&](nlmsghdr* message) {
        const NetConf one = netconf_of(message);
        if (one.interface_index == interface_index) {
          out.is_ipv6_router = one.forwards.value_or(false);
        }
      });
}

void add_route(RouteOfTable&& found, std::vector<RoutingTable>& tables) {
  auto at = std::ranges::find(tables, found.table, &RoutingTable::id);
  if (at == tables.end()) at = tables.insert(at, RoutingTable{found.table, {}});
  at->routes.push_back(std::move(found.route));
}

Result<void> read_routes(nl_sock* socket, int interface_index, std::uint8_t family, HostView& out) {
  rtmsg header{};
  header.rtm_family = family;
  std::vector<RouteOfTable> found;
  std::size_t left_out = 0;
  auto read = netlink_dump(
      socket, {.type = RTM_GETROUTE, .header = bytes_of(header), .out_interface = interface_index},
      [&] {
        found.clear();
        left_out = 0;
      },
      [&](nlmsghdr* message) {
        auto route = route_of(message, interface_index);
        if (!route) return;
        if (found.size() < HostView::kMaxRoutes) {
          found.push_back(std::move(*route));
        } else {
          ++left_out;
        }
      });
  out.routes_left_out += left_out;
  for (RouteOfTable& one : found) add_route(std::move(one), out.tables);
  return read;
}

Result<void> read_rules(nl_sock* socket, std::uint8_t family, HostView& out) {
  fib_rule_hdr header{};
  header.family = family;
  std::vector<RoutingRule> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETRULE, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (found.size() >= HostView::kMaxRules) return;
        if (auto rule = rule_of(message)) found.push_back(*rule);
      });
  out.rules.insert(out.rules.end(), found.begin(), found.end());
  return read;
}

bool route_concerns(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr) return false;
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  bool concerned = false;
  for_each_hop(attributes, header->rtm_family,
               [&](int interface, const RouteHop&) { concerned |= interface == interface_index; });
  return concerned;
}

}  // namespace

Result<HostView> read_host_view(nl_sock* socket, int interface_index, const ArpPolicy& arp) {
  HostView view;
  view.arp = arp;
  if (auto read = read_forwarding(socket, interface_index, view); !read) return read.error();
  if (auto read = read_local_addresses(socket, interface_index, view); !read) return read.error();
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    if (auto read = read_addresses(socket, interface_index, family, view); !read) {
      return read.error();
    }
    if (auto read = read_routes(socket, interface_index, family, view); !read) return read.error();
    if (auto read = read_rules(socket, family, view); !read) return read.error();
  }
  return view;
}

bool concerns_host_view(nlmsghdr* message, int interface_index) {
  switch (message->nlmsg_type) {
    case RTM_NEWADDR:
    case RTM_DELADDR:
    case kNewMulticast:
    case kDeleteMulticast: {
      const auto* const about = header_of<ifaddrmsg>(message);
      return about != nullptr && static_cast<int>(about->ifa_index) == interface_index;
    }
    case RTM_NEWLINK:
    case RTM_DELLINK: {
      const auto* const about = header_of<ifinfomsg>(message);
      return about != nullptr && about->ifi_index == interface_index;
    }
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return is_local_route(message) || route_concerns(message, interface_index);
    case RTM_NEWNETCONF: {
      const int about = netconf_of(message).interface_index;
      return about == interface_index || about == NETCONFA_IFINDEX_ALL;
    }
    case RTM_NEWRULE:
    case RTM_DELRULE:
      return true;
    default:
      return false;
  }
}

/// The multicast route exists as long as the interface has IPv6.
bool announces_ipv6_removal(nlmsghdr* message, int interface_index) {
  if (message->nlmsg_type == RTM_NEWLINK) {
    const auto* const about = header_of<ifinfomsg>(message);
    return about != nullptr && about->ifi_index == interface_index &&
           (about->ifi_flags & IFF_UP) == 0;
  }
  const auto* const route =
      message->nlmsg_type == RTM_DELROUTE ? header_of<rtmsg>(message) : nullptr;
  return route != nullptr && route->rtm_family == AF_INET6 && route->rtm_type == RTN_MULTICAST &&
         route_concerns(message, interface_index);
}

}  // namespace ipoib::host
