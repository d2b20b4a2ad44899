// The host's addresses and its policy for ARP, from the last HostView, and the addresses of
// stations behind it, which the link answers for as well (Link::serve).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"

namespace ipoib::link {

class HostAddresses {
 public:
  /// Takes the addresses from the view; returns those that are new.
  std::vector<IpAddress> update(const HostView& view);

  [[nodiscard]] const std::vector<IpPrefix>& all() const { return prefixes_; }
  /// The MAC of a TAP or its bridge; zero on a TUN.
  [[nodiscard]] MacAddress mac() const { return mac_; }
  [[nodiscard]] bool is_ipv6_router() const { return is_ipv6_router_; }

  /// Adds the address of a station, or changes whether it is a router. Returns whether it is new.
  bool serve(const IpAddress& address, bool is_router);
  bool withdraw(const IpAddress& address) { return served_.erase(address) > 0; }
  [[nodiscard]] bool is_served(const IpAddress& address) const { return served_.contains(address); }
  /// Addresses of stations, and whether each is an IPv6 router.
  [[nodiscard]] const std::map<IpAddress, bool>& served() const { return served_; }
  /// Whether the link sends ARP and Neighbour Discovery from this address: it is one of the
  /// interface, or of a station.
  [[nodiscard]] bool speaks_for(const IpAddress& address) const {
    return is_own(address) || is_served(address);
  }
  /// Whether the host, or the station that has the address, is a router.
  [[nodiscard]] bool is_ipv6_router(const IpAddress& address) const {
    const auto at = served_.find(address);
    return at != served_.end() ? at->second : is_ipv6_router_;
  }

  [[nodiscard]] bool is_own(const IpAddress& address) const { return own_.contains(address); }
  /// Whether the address is the host's, on this or another interface.
  [[nodiscard]] bool is_local(Ipv4Address address) const;
  [[nodiscard]] const ArpPolicy& arp() const { return arp_; }
  /// Where refresh_policy() reads the policy. Without a source it is that of the view.
  void set_policy_source(const ArpPolicySource* source) { source_ = source; }
  /// Reads the policy if that was last done longer ago than `age`.
  void refresh_policy(Duration age, TimePoint now);
  [[nodiscard]] bool is_of_larger_scope(Ipv4Address address) const {
    return of_larger_scope_.contains(address);
  }
  [[nodiscard]] bool is_proxied(Ipv4Address address) const { return proxied_.contains(address); }
  /// Whether one subnet of the interface has both addresses.
  [[nodiscard]] bool is_one_subnet(Ipv4Address a, Ipv4Address b) const;
  /// The limited broadcast address, or the directed one of a subnet of the host.
  [[nodiscard]] bool is_broadcast(Ipv4Address address) const;
  /// Whether a neighbour can have the address: unicast, and neither the host's nor a station's.
  [[nodiscard]] bool can_be_neighbour(const IpAddress& address) const;
  /// The source address of a solicitation: the host's in the target's subnet, else that of a
  /// station with most bits in common with the target, else the first of its family (RFC 4861,
  /// 7.2.2), else for IPv4 one of another interface; unspecified if there is none.
  [[nodiscard]] Ipv4Address source_for(Ipv4Address target) const;
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target) const {
    return source_among(target);
  }

 private:
  void update_local(const HostView& view);
  template <class Address>
  [[nodiscard]] Address source_among(const Address& target) const;
  template <class Address>
  [[nodiscard]] Address nearest_station(const Address& target) const;

  // These are sets, since they are searched for each packet to an unknown destination and each ARP
  // message, and a host may have thousands of addresses.
  std::unordered_set<IpAddress> own_;
  std::unordered_set<Ipv4Address> broadcasts_;
  std::vector<IpPrefix> prefixes_;
  std::unordered_set<Ipv4Address> local_;
  std::vector<IpPrefix> local_prefixes_;  ///< of more than one address
  Ipv4Address other_;                     ///< one of another interface, or unspecified
  std::unordered_set<Ipv4Address> of_larger_scope_;
  std::unordered_set<Ipv4Address> proxied_;
  const ArpPolicySource* source_ = nullptr;
  std::string arp_interface_;
  ArpPolicy arp_;
  std::optional<TimePoint> arp_read_;  ///< from the source
  MacAddress mac_;
  bool is_ipv6_router_ = false;
  /// Ordered, to find the nearest address, and so that nobody can choose addresses that take long
  /// to find.
  std::map<IpAddress, bool> served_;
};

}  // namespace ipoib::link
