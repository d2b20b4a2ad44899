// The host's addresses on the interface, as the link last saw them in the HostView.
#pragma once

#include <unordered_set>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::link {

class HostAddresses {
 public:
  /// Takes over what the view has now; returns the addresses that are new.
  std::vector<IpAddress> update(const HostView& view);

  [[nodiscard]] const std::vector<IpPrefix>& all() const { return prefixes_; }
  [[nodiscard]] bool is_ipv6_router() const { return is_ipv6_router_; }
  [[nodiscard]] bool is_own(const IpAddress& address) const { return own_.contains(address); }
  /// Limited, or directed to the subnet of one of the addresses.
  [[nodiscard]] bool is_broadcast(Ipv4Address address) const;
  /// Whether a neighbour can have it.
  [[nodiscard]] bool is_neighbour(const IpAddress& address) const;
  /// Which address asks for a target: one of its subnet if there is one, else any of its family
  /// (RFC 4861, 7.2.2); unspecified while the host has none.
  [[nodiscard]] Ipv4Address source_for(Ipv4Address target) const { return source_among(target); }
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target) const {
    return source_among(target);
  }

 private:
  template <class Address>
  [[nodiscard]] Address source_among(const Address& target) const;

  // Each packet of the host and each ARP message asks for these two, and hosts may have thousands.
  std::unordered_set<IpAddress> own_;
  std::unordered_set<Ipv4Address> broadcasts_;
  std::vector<IpPrefix> prefixes_;
  bool is_ipv6_router_ = false;
};

}  // namespace ipoib::link
