// A snapshot of the host's configuration of an interface, mirrored from the kernel. The netlink
// client creates it, and passes it to the link's thread in a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/host_routes.hpp"
#include "ipoib/ip_prefix.hpp"
#include "ipoib/mac_address.hpp"

namespace ipoib {

/// How the kernel responds to ARP requests, and which source addresses its own requests have. Each
/// value is the combination of those for "all" and for the interface that the kernel uses
/// (ip-sysctl).
struct ArpPolicy {
  std::uint8_t ignore = 0;    ///< arp_ignore
  std::uint8_t announce = 0;  ///< arp_announce
  bool filter = false;        ///< arp_filter
  bool proxy = false;         ///< proxy_arp or proxy_arp_pvlan, and the interface forwards
  bool forwards = false;      ///< the interface does: `ip neigh add proxy` is in force
  friend bool operator==(const ArpPolicy&, const ArpPolicy&) = default;
};

/// Seam: the policy as it is now, since the kernel does not announce its changes. Implemented by
/// ArpSettings.
class ArpPolicySource {
 public:
  virtual ~ArpPolicySource() = default;
  /// Returns the policy of an interface; nullopt if there is none of that name, for example since
  /// it was renamed.
  [[nodiscard]] virtual std::optional<ArpPolicy> read(const std::string& interface) const = 0;
};

/// An address of an Ethernet interface of the host.
struct LinkAddress {
  MacAddress mac;
  IpAddress address;
  friend auto operator<=>(const LinkAddress&, const LinkAddress&) = default;
};

struct HostView {
  /// The maximum number of mirrored routes per family; `routes_left_out` counts the others.
  static constexpr std::size_t kMaxRoutes = 65536;
  static constexpr std::size_t kMaxRules = 4096;
  static constexpr std::size_t kMaxRedirects = 4096;
  static constexpr std::size_t kMaxProxied = 4096;

  /// The interface's addresses with their prefixes, in the kernel's order. IPv6 addresses only
  /// after duplicate address detection has succeeded.
  std::vector<IpPrefix> addresses = {};
  bool is_ipv6_router = false;  ///< the interface forwards IPv6
  /// A multicast routing program uses the interface (mc_forwarding).
  bool routes_ipv4_multicast = false;
  bool routes_ipv6_multicast = false;
  ArpPolicy arp = {};
  /// The interface that an ArpPolicySource is to read the policy of; empty if there is none.
  std::string arp_interface = {};
  /// What the kernel takes for its own IPv4 addresses: the interface's, those of others, and local
  /// routes (`ip route add local`). Without loopback addresses.
  std::vector<IpPrefix> local = {};
  /// Addresses of all interfaces with a larger scope than "host": arp_ignore may become 3.
  std::vector<Ipv4Address> of_larger_scope = {};
  /// Addresses for which the host replies to ARP requests as a proxy (`ip neigh add proxy`), if it
  /// forwards.
  std::vector<Ipv4Address> proxied = {};
  /// Routes of both families through the interface, in every table except the kernel's local table.
  std::vector<RoutingTable> tables = {};
  /// Nexthop objects that routes may use. Those of other interfaces have no next hop here.
  std::vector<NextHopObject> nexthops = {};
  /// Rules of both families, in the kernel's order.
  std::vector<RoutingRule> rules = {};
  /// The redirects that the kernel follows at present.
  std::vector<Redirect> redirects = {};
  /// Multicast groups that the host has joined on the interface. The all-nodes groups may be
  /// missing.
  std::vector<IpAddress> groups = {};
  std::uint32_t mtu = 0;            ///< of the interface, while it is up; 0: unknown
  std::size_t routes_left_out = 0;  ///< beyond kMaxRoutes
  /// The MAC of a TAP, or of the bridge or bond that it is a port of, whose configuration this then
  /// is. A TUN has none.
  std::optional<MacAddress> mac = {};
  /// Only with a TAP: the MACs of all Ethernet interfaces of the host in this network namespace,
  /// except macvtap interfaces, whose MACs are those of virtual machines.
  std::vector<MacAddress> macs = {};
  /// Only with a TAP: the addresses of these interfaces, sorted.
  std::vector<LinkAddress> link_addresses = {};
  friend bool operator==(const HostView&, const HostView&) = default;
};

}  // namespace ipoib
