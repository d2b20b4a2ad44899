// rtnetlink(7) messages about routes, rules and nexthop objects. A missing attribute, or one of the
// wrong size, leaves the default.
#include "linux/route_reader.hpp"

#include <linux/fib_rules.h>
#include <linux/icmpv6.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::host {
namespace {

// --- Nexthop objects -----------------------------------------------------------------------------

/// The next hops through the interface, by the id of a nexthop object or of a group of them.
using NextHopObjects = std::unordered_map<std::uint32_t, std::vector<RouteHop>>;

struct NextHopGroup {
  std::uint32_t id = 0;
  std::vector<nexthop_grp> members;
};

std::vector<nexthop_grp> members_of(const nlattr* attribute) {
  std::vector<nexthop_grp> members(static_cast<std::size_t>(nla_len(attribute)) /
                                   sizeof(nexthop_grp));
  std::memcpy(members.data(), nla_data(attribute), members.size() * sizeof(nexthop_grp));
  return members;
}

Result<void> read_objects(nl_sock* socket, int interface_index, NextHopObjects& out) {
  const nhmsg header{};
  std::vector<NextHopGroup> groups;
  auto read = netlink_dump(
      socket, {.type = RTM_GETNEXTHOP, .header = bytes_of(header), .out_interface = 0},
      [&] {
        out.clear();
        groups.clear();
      },
      [&](nlmsghdr* message) {
        const auto* const about = header_of<nhmsg>(message);
        if (about == nullptr || out.size() + groups.size() >= HostView::kMaxRoutes) return;
        const auto attributes = attributes_of<NHA_MAX>(message, sizeof *about);
        const std::uint32_t id = number_of(attributes[NHA_ID]).value_or(0);
        if (attributes[NHA_GROUP] != nullptr) {
          groups.push_back({id, members_of(attributes[NHA_GROUP])});
        } else if (number_of(attributes[NHA_OIF]) == static_cast<std::uint32_t>(interface_index)) {
          out[id] = {RouteHop{address_of(attributes[NHA_GATEWAY], about->nh_family), 1}};
        }
      });
  for (const NextHopGroup& group : groups) {
    std::vector<RouteHop> hops;
    for (const nexthop_grp& member : group.members) {
      const auto object = out.find(member.id);
      if (object == out.end()) continue;
      hops.push_back(object->second.front());
      hops.back().weight = static_cast<std::uint16_t>(member.weight + 1);
    }
    if (!hops.empty()) out[group.id] = std::move(hops);
  }
  return read;
}

// --- Routes --------------------------------------------------------------------------------------

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

struct RouteOfTable {
  std::uint32_t table = 0;
  HostRoute route;
};

HostRoute::Preference preference_of(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) < 1) return HostRoute::Preference::medium;
  switch (nla_get_u8(attribute)) {
    case ICMPV6_ROUTER_PREF_HIGH:
      return HostRoute::Preference::high;
    case ICMPV6_ROUTER_PREF_LOW:
      return HostRoute::Preference::low;
    default:
      return HostRoute::Preference::medium;
  }
}

std::optional<RouteOfTable> route_of(nlmsghdr* message, int interface_index,
                                     const NextHopObjects& objects) {
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
  found.route.tos = header->rtm_tos;
  found.route.preference = preference_of(attributes[RTA_PREF]);
  for_each_hop(attributes, family, [&](int interface, const RouteHop& hop) {
    if (interface == interface_index) found.route.hops.push_back(hop);
  });
  // Without nexthop_compat_mode the kernel tells only the object.
  const auto object = objects.find(number_of(attributes[RTA_NH_ID]).value_or(0));
  if (found.route.hops.empty() && object != objects.end()) found.route.hops = object->second;
  if (found.route.hops.empty()) return {};
  return found;
}

void add_route(RouteOfTable&& found, std::vector<RoutingTable>& tables) {
  auto at = std::ranges::find(tables, found.table, &RoutingTable::id);
  if (at == tables.end()) at = tables.insert(at, RoutingTable{found.table, {}});
  at->routes.push_back(std::move(found.route));
}

Result<void> read_routes(nl_sock* socket, int interface_index, std::uint8_t family,
                         const NextHopObjects& objects, HostView& out) {
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
        auto route = route_of(message, interface_index, objects);
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

/// An exception with a gateway: the result of an ICMP redirect, or of a path MTU, whose gateway is
/// that of its route.
std::optional<Redirect> redirect_of(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr || header->rtm_type != RTN_UNICAST ||
      (header->rtm_flags & RTM_F_CLONED) == 0) {
    return {};
  }
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  const auto destination = address_of(attributes[RTA_DST], header->rtm_family);
  const auto gateway = gateway_of(attributes[RTA_GATEWAY], attributes[RTA_VIA], header->rtm_family);
  const auto interface = number_of(attributes[RTA_OIF]);
  if (!destination || !gateway || interface != static_cast<std::uint32_t>(interface_index)) {
    return {};
  }
  return Redirect{*destination, *gateway};
}

Result<void> read_redirects(nl_sock* socket, int interface_index, std::uint8_t family,
                            HostView& out) {
  rtmsg header{};
  header.rtm_family = family;
  header.rtm_flags = RTM_F_CLONED;
  std::vector<Redirect> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETROUTE, .header = bytes_of(header), .out_interface = interface_index},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (found.size() >= HostView::kMaxRedirects) return;
        if (const auto redirect = redirect_of(message, interface_index)) found.push_back(*redirect);
      });
  out.redirects.insert(out.redirects.end(), found.begin(), found.end());
  return read;
}

// --- Rules ---------------------------------------------------------------------------------------

std::optional<IpPrefix> prefix_of(const nlattr* attribute, int family, std::uint8_t bits) {
  const auto address = address_of(attribute, family);
  if (!address || bits == 0) return std::nullopt;
  return IpPrefix{*address, bits};
}

std::optional<PortRange> ports_of(const nlattr* attribute) {
  fib_rule_port_range range{};
  if (attribute == nullptr || nla_len(attribute) < static_cast<int>(sizeof range)) {
    return std::nullopt;
  }
  std::memcpy(&range, nla_data(attribute), sizeof range);
  return PortRange{range.start, range.end};
}

std::string_view name_of(const nlattr* attribute) {
  const auto* const text = static_cast<const char*>(nla_data(attribute));
  return {text, strnlen(text, static_cast<std::size_t>(nla_len(attribute)))};
}

/// Conditions of a rule that a packet does not show.
constexpr std::array kUnseenConditions{FRA_FWMARK, FRA_TUN_ID, FRA_UID_RANGE, FRA_L3MDEV};

void read_interfaces(const Attributes<FRA_MAX>& attributes, const std::string& interface,
                     RoutingRule& rule) {
  if (const nlattr* const input = attributes[FRA_IIFNAME]; input != nullptr) {
    rule.input = name_of(input) == "lo" ? RoutingRule::Input::host : RoutingRule::Input::network;
  }
  if (const nlattr* const output = attributes[FRA_OIFNAME]; output != nullptr) {
    // Applies to sockets that are bound to the interface, which a packet does not show.
    rule.never = name_of(output) != interface;
    rule.is_certain &= rule.never;
  }
}

std::optional<RoutingRule> rule_of(nlmsghdr* message, const std::string& interface) {
  const auto* const header = header_of<fib_rule_hdr>(message);
  if (header == nullptr || (header->action != FR_ACT_TO_TBL && header->action != FR_ACT_GOTO)) {
    return {};
  }
  const int family = header->family;
  if (family != AF_INET && family != AF_INET6) return {};
  const auto attributes = attributes_of<FRA_MAX>(message, sizeof *header);
  const bool asks_for_more = std::ranges::any_of(
      kUnseenConditions, [&](std::size_t condition) { return attributes[condition] != nullptr; });
  RoutingRule rule{.family = family == AF_INET ? IpFamily::v4 : IpFamily::v6,
                   .table = number_of(attributes[FRA_TABLE]).value_or(header->table),
                   .source = prefix_of(attributes[FRA_SRC], family, header->src_len),
                   .destination = prefix_of(attributes[FRA_DST], family, header->dst_len),
                   .is_certain = !asks_for_more,
                   .priority = number_of(attributes[FRA_PRIORITY]).value_or(0),
                   .tos = header->tos,
                   .source_ports = ports_of(attributes[FRA_SPORT_RANGE]),
                   .destination_ports = ports_of(attributes[FRA_DPORT_RANGE]),
                   .is_inverted = (header->flags & FIB_RULE_INVERT) != 0};
  if (header->action == FR_ACT_GOTO) rule.jump = number_of(attributes[FRA_GOTO]);
  const nlattr* const protocol = attributes[FRA_IP_PROTO];
  if (protocol != nullptr && nla_len(protocol) >= 1) rule.protocol = nla_get_u8(protocol);
  read_interfaces(attributes, interface, rule);
  const auto ignored = number_of(attributes[FRA_SUPPRESS_PREFIXLEN]);
  if (ignored && *ignored <= 128) rule.ignored_bits = static_cast<std::uint8_t>(*ignored);
  return rule;
}

Result<void> read_rules(nl_sock* socket, const std::string& interface, std::uint8_t family,
                        HostView& out) {
  fib_rule_hdr header{};
  header.family = family;
  std::vector<RoutingRule> found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETRULE, .header = bytes_of(header), .out_interface = 0},
      [&] { found.clear(); },
      [&](nlmsghdr* message) {
        if (found.size() >= HostView::kMaxRules) return;
        if (auto rule = rule_of(message, interface)) found.push_back(*rule);
      });
  out.rules.insert(out.rules.end(), found.begin(), found.end());
  return read;
}

}  // namespace

Result<void> read_routing(nl_sock* socket, const InterfaceName& interface, HostView& out) {
  NextHopObjects objects;
  if (auto read = read_objects(socket, interface.index, objects); !read) return read.error();
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    if (auto read = read_routes(socket, interface.index, family, objects, out); !read) {
      return read.error();
    }
    if (auto read = read_redirects(socket, interface.index, family, out); !read) {
      return read.error();
    }
    if (auto read = read_rules(socket, interface.name, family, out); !read) return read.error();
  }
  return {};
}

bool route_concerns(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr) return false;
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  // Beside the nexthop object the kernel names its interfaces, unless it is told not to
  // (net.ipv4.nexthop_compat_mode).
  bool concerned = attributes[RTA_NH_ID] != nullptr && attributes[RTA_OIF] == nullptr &&
                   attributes[RTA_MULTIPATH] == nullptr;
  for_each_hop(attributes, header->rtm_family,
               [&](int interface, const RouteHop&) { concerned |= interface == interface_index; });
  return concerned;
}

}  // namespace ipoib::host
