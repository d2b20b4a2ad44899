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
  std::vector<Ipv4Address> update(const HostView& view);

  [[nodiscard]] const std::vector<Ipv4Prefix>& all() const { return prefixes_; }
  [[nodiscard]] bool is_own(Ipv4Address address) const;
  /// Limited, or directed to the subnet of one of the addresses.
  [[nodiscard]] bool is_broadcast(Ipv4Address address) const;
  /// Whether a neighbour can have it.
  [[nodiscard]] bool is_neighbour(Ipv4Address address) const;
  /// Which address asks for a target: one of its subnet if there is one, else any; unspecified
  /// while the host has none.
  [[nodiscard]] Ipv4Address source_for(Ipv4Address target) const;

 private:
  // Each packet of the host and each ARP message asks for these two, and hosts may have thousands.
  std::unordered_set<Ipv4Address> own_;
  std::unordered_set<Ipv4Address> broadcasts_;
  std::vector<Ipv4Prefix> prefixes_;
};

}  // namespace ipoib::link
