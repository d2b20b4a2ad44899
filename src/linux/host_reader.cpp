// Converts rtnetlink(7) messages to values. A missing attribute, or one of the wrong size, leaves
// the default.
#include "linux/host_reader.hpp"

#include <linux/if_addr.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "linux/local_addresses.hpp"
#include "linux/netlink_dump.hpp"
#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

// RTM_NEWMULTICAST and RTM_DELMULTICAST, missing in older headers.
constexpr int kNewMulticast = RTM_GETMULTICAST - 2;
constexpr int kDeleteMulticast = RTM_GETMULTICAST - 1;

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
        const auto one = usable_address_of(message);
        if (one && one->interface_index == interface_index) found.push_back(one->prefix);
      });
  out.addresses.insert(out.addresses.end(), found.begin(), found.end());
  return read;
}

/// Content of an RTM_NEWNETCONF message: the interface, and whether it forwards unicast and
/// multicast.
struct NetConf {
  int interface_index = 0;
  bool forwards = false;
  bool forwards_multicast = false;
};
NetConf netconf_of(nlmsghdr* message) {
  const auto attributes = attributes_of<NETCONFA_MAX>(message, sizeof(netconfmsg));
  const auto value_of = [&](int attribute) {
    return number_of(attributes[static_cast<std::size_t>(attribute)]).value_or(0);
  };
  return {.interface_index = static_cast<int>(value_of(NETCONFA_IFINDEX)),
          .forwards = value_of(NETCONFA_FORWARDING) != 0,
          .forwards_multicast = value_of(NETCONFA_MC_FORWARDING) != 0};
}

Result<NetConf> read_forwarding(nl_sock* socket, int interface_index, std::uint8_t family) {
  netconfmsg header{};
  header.ncm_family = family;
  NetConf found;
  auto read = netlink_dump(
      socket, {.type = RTM_GETNETCONF, .header = bytes_of(header), .out_interface = 0}, [] {},
      [&](nlmsghdr* message) {
        const NetConf one = netconf_of(message);
        if (one.interface_index == interface_index) found = one;
      });
  if (!read) return read.error();
  return found;
}

}  // namespace

std::optional<InterfaceAddress> usable_address_of(nlmsghdr* message) {
  const auto* const header = header_of<ifaddrmsg>(message);
  if (header == nullptr) return {};
  const auto attributes = attributes_of<IFA_MAX>(message, sizeof *header);
  const auto flags = number_of(attributes[IFA_FLAGS]).value_or(header->ifa_flags);
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return {};
  // On point-to-point links IFA_ADDRESS is the peer's; IPv6 has IFA_LOCAL only there.
  const nlattr* const local = attributes[IFA_LOCAL];
  const auto address =
      address_of(local != nullptr ? local : attributes[IFA_ADDRESS], header->ifa_family);
  if (!address) return {};
  return InterfaceAddress{static_cast<int>(header->ifa_index), {*address, header->ifa_prefixlen}};
}

Result<HostView> read_host_view(nl_sock* socket, const InterfaceName& interface,
                                const ArpPolicy& arp) {
  HostView view;
  view.arp = arp;
  view.arp_interface = interface.name;
  const auto ipv4 = read_forwarding(socket, interface.index, AF_INET);
  if (!ipv4) return ipv4.error();
  const auto ipv6 = read_forwarding(socket, interface.index, AF_INET6);
  if (!ipv6) return ipv6.error();
  view.is_ipv6_router = ipv6->forwards;
  view.routes_ipv4_multicast = ipv4->forwards_multicast;
  view.routes_ipv6_multicast = ipv6->forwards_multicast;
  if (auto read = read_local_addresses(socket, interface.index, view); !read) return read.error();
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    if (auto read = read_addresses(socket, interface.index, family, view); !read) {
      return read.error();
    }
  }
  if (auto read = read_routing(socket, interface, view); !read) return read.error();
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
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
      return true;
    default:
      return false;
  }
}

bool concerns_only_routes(nlmsghdr* message) {
  switch (message->nlmsg_type) {
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return !is_local_route(message);
    case RTM_NEWRULE:
    case RTM_DELRULE:
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
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

}  // namespace ipoib::linux
