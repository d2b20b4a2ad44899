#include "linux/route_messages.hpp"

#include <linux/fib_rules.h>
#include <linux/icmpv6.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

// --- Nexthop objects -----------------------------------------------------------------------------

std::vector<NextHopObject::Member> members_of(const nlattr* attribute) {
  std::vector<nexthop_grp> members(static_cast<std::size_t>(nla_len(attribute)) /
                                   sizeof(nexthop_grp));
  if (members.empty()) return {};
  std::memcpy(members.data(), nla_data(attribute), members.size() * sizeof(nexthop_grp));
  std::vector<NextHopObject::Member> out;
  out.reserve(members.size());
  for (const nexthop_grp& member : members) {
    out.push_back({member.id, static_cast<std::uint16_t>(member.weight + 1)});
  }
  return out;
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

/// The identity of a route, and its next hops through the interface. nullopt for a route of the
/// host itself, which the local table has, and for an exception.
std::optional<RouteOfTable> parts_of(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr || (header->rtm_flags & RTM_F_CLONED) != 0) return {};
  const int family = header->rtm_family;
  if (family != AF_INET && family != AF_INET6) return {};
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  RouteOfTable found{.table = number_of(attributes[RTA_TABLE]).value_or(header->rtm_table),
                     .route = {}};
  if (found.table == RT_TABLE_LOCAL) return {};
  if (header->rtm_dst_len > bits_of(family)) return {};
  HostRoute& route = found.route;
  route.destination = {address_of(attributes[RTA_DST], family).value_or(unspecified(family)),
                       header->rtm_dst_len};
  route.metric = number_of(attributes[RTA_PRIORITY]).value_or(0);
  route.tos = header->rtm_tos;
  if (header->rtm_type != RTN_UNICAST) return found;
  route.preference = preference_of(attributes[RTA_PREF]);
  route.nexthop = number_of(attributes[RTA_NH_ID]).value_or(0);
  // IPv6 keeps the route, without the source.
  if (family == AF_INET) route.source = address_of(attributes[RTA_PREFSRC], family);
  for_each_hop(attributes, family, [&](int interface, const RouteHop& hop) {
    if (interface == interface_index) route.hops.push_back(hop);
  });
  return found;
}

/// Whether packets take the route: not if it leads to a group, to all, or to the host itself.
bool is_for_packets(const rtmsg& header) {
  constexpr std::array kTypes{RTN_UNICAST, RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW};
  return std::ranges::find(kTypes, header.rtm_type) != kTypes.end();
}

/// The address that a removed local route belonged to. The kernel removes it with the address,
/// before the routes that have the address as their source.
std::optional<SourceRemoved> source_in(nlmsghdr* message) {
  constexpr std::uint8_t kOneAddress = 32;
  const auto* const header = header_of<rtmsg>(message);
  if (header->rtm_type != RTN_LOCAL || header->rtm_dst_len != kOneAddress) return {};
  const auto attributes = attributes_of<RTA_MAX>(message, sizeof *header);
  const auto address = address_of(attributes[RTA_DST], header->rtm_family);
  return address ? std::optional(SourceRemoved{*address}) : std::nullopt;
}

std::optional<RouteChange> added_route(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr || !is_for_packets(*header)) return {};
  auto found = parts_of(message, interface_index);
  if (!found) return {};
  using Position = RouteAdded::Position;
  const bool replaces = (message->nlmsg_flags & NLM_F_REPLACE) != 0;
  const bool is_last = (message->nlmsg_flags & NLM_F_APPEND) != 0;
  if (!replaces && found->route.hops.empty() && found->route.nexthop == 0) return {};
  const Position position = replaces  ? Position::instead
                            : is_last ? Position::last
                                      : Position::first;
  return RouteAdded{found->table, std::move(found->route), position};
}

std::optional<RouteChange> removed_route(nlmsghdr* message, int interface_index) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr) return {};
  if (const auto source = source_in(message)) return *source;
  if (!is_for_packets(*header)) return {};
  auto found = parts_of(message, interface_index);
  if (!found || (found->route.hops.empty() && found->route.nexthop == 0)) return {};
  return RouteRemoved{found->table, std::move(found->route)};
}

// --- Rules ---------------------------------------------------------------------------------------

std::optional<IpPrefix> prefix_of(const nlattr* attribute, int family, std::uint8_t bits) {
  const auto address = address_of(attribute, family);
  if (!address || bits == 0 || bits > bits_of(family)) return std::nullopt;
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

/// The conditions of a rule that a packet does not show.
constexpr std::array kUnseenConditions{FRA_FWMARK, FRA_TUN_ID, FRA_UID_RANGE, FRA_L3MDEV};

void read_interfaces(const Attributes<FRA_MAX>& attributes, const std::string& interface,
                     RoutingRule& rule) {
  if (const nlattr* const input = attributes[FRA_IIFNAME]; input != nullptr) {
    rule.input = text_of(input) == "lo" ? RoutingRule::Input::host : RoutingRule::Input::network;
  }
  if (const nlattr* const output = attributes[FRA_OIFNAME]; output != nullptr) {
    // The condition applies to sockets that are bound to the interface, which a packet does not
    // show.
    rule.never = text_of(output) != interface;
    rule.is_certain &= rule.never;
  }
}

}  // namespace

/// The route in a message. Without nexthop_compat_mode the kernel names only the object.
std::optional<RouteOfTable> route_of(nlmsghdr* message, int interface_index,
                                     const NextHopObjects& objects) {
  const auto* const header = header_of<rtmsg>(message);
  if (header == nullptr || header->rtm_type != RTN_UNICAST) return {};
  auto found = parts_of(message, interface_index);
  if (!found) return {};
  auto& hops = found->route.hops;
  const auto object = objects.find(found->route.nexthop);
  if (hops.empty() && object != objects.end()) hops = object->second;
  if (hops.empty()) return {};
  return found;
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

std::optional<NextHopObject> nexthop_of(nlmsghdr* message, int interface_index) {
  const auto* const about = header_of<nhmsg>(message);
  if (about == nullptr) return {};
  const auto attributes = attributes_of<NHA_MAX>(message, sizeof *about);
  NextHopObject object{.id = number_of(attributes[NHA_ID]).value_or(0)};
  if (attributes[NHA_GROUP] != nullptr) {
    object.members = members_of(attributes[NHA_GROUP]);
  } else if (number_of(attributes[NHA_OIF]) == static_cast<std::uint32_t>(interface_index)) {
    object.hop = RouteHop{address_of(attributes[NHA_GATEWAY], about->nh_family), 1};
  }
  return object;
}

std::optional<RouteChange> route_change_of(nlmsghdr* message, const InterfaceName& interface) {
  switch (message->nlmsg_type) {
    case RTM_NEWROUTE:
      return added_route(message, interface.index);
    case RTM_DELROUTE:
      return removed_route(message, interface.index);
    case RTM_NEWRULE:
    case RTM_DELRULE:
      if (auto rule = rule_of(message, interface.name)) {
        return RuleChanged{*rule, message->nlmsg_type == RTM_NEWRULE};
      }
      return {};
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
      if (auto object = nexthop_of(message, interface.index)) {
        return NextHopChanged{std::move(*object), message->nlmsg_type == RTM_NEWNEXTHOP};
      }
      return {};
    default:
      return {};
  }
}

}  // namespace ipoib::linux
