#include "link/host_addresses.hpp"

#include <algorithm>

namespace ipoib::link {

std::vector<Ipv4Address> HostAddresses::update(const HostView& view) {
  std::vector<Ipv4Address> added;
  for (const Ipv4Prefix& prefix : view.addresses()) {
    const bool twice = std::ranges::find(added, prefix.address) != added.end();
    if (!is_own(prefix.address) && !twice) added.push_back(prefix.address);
  }
  prefixes_ = view.addresses();
  return added;
}

bool HostAddresses::is_own(Ipv4Address address) const {
  return std::ranges::find(prefixes_, address, &Ipv4Prefix::address) != prefixes_.end();
}

bool HostAddresses::is_broadcast(Ipv4Address address) const {
  return address.is_limited_broadcast() ||
         std::ranges::any_of(prefixes_, [address](const Ipv4Prefix& prefix) {
           return prefix.broadcast() == address;
         });
}

bool HostAddresses::is_neighbour(Ipv4Address address) const {
  return !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() &&
         !is_broadcast(address) && !is_own(address);
}

Ipv4Address HostAddresses::source_for(Ipv4Address target) const {
  const auto on_link = std::ranges::find_if(
      prefixes_, [target](const Ipv4Prefix& prefix) { return prefix.contains(target); });
  if (on_link != prefixes_.end()) return on_link->address;
  return prefixes_.empty() ? Ipv4Address{} : prefixes_.front().address;
}

}  // namespace ipoib::link
