// The host's addresses on the interface, from the last HostView.
#pragma once

#include <unordered_set>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::link {

class HostAddresses {
 public:
  /// Takes the addresses from the view; returns those that are new.
  std::vector<IpAddress> update(const HostView& view);

  [[nodiscard]] const std::vector<IpPrefix>& all() const { return prefixes_; }
  [[nodiscard]] bool is_ipv6_router() const { return is_ipv6_router_; }
  [[nodiscard]] bool is_own(const IpAddress& address) const { return own_.contains(address); }
  /// The limited broadcast address, or the directed one of a subnet of the host.
  [[nodiscard]] bool is_broadcast(Ipv4Address address) const;
  /// Whether a neighbour can have the address: unicast, and not the host's own.
  [[nodiscard]] bool can_be_neighbour(const IpAddress& address) const;
  /// The source address of a solicitation: one in the target's subnet, else the first of its family
  /// (RFC 4861, 7.2.2); unspecified if the host has none.
  [[nodiscard]] Ipv4Address source_for(Ipv4Address target) const { return source_among(target); }
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target) const {
    return source_among(target);
  }

 private:
  template <class Address>
  [[nodiscard]] Address source_among(const Address& target) const;

  // Sets, since they are searched for each packet to an unknown destination and each ARP message,
  // and a host may have thousands of addresses.
  std::unordered_set<IpAddress> own_;
  std::unordered_set<Ipv4Address> broadcasts_;
  std::vector<IpPrefix> prefixes_;
  bool is_ipv6_router_ = false;
};

}  // namespace ipoib::link
