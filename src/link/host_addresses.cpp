#include "link/host_addresses.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::link {

std::vector<Ipv4Address> HostAddresses::update(const HostView& view) {
  std::vector<Ipv4Address> added;
  std::unordered_set<Ipv4Address> own;
  broadcasts_.clear();
  for (const Ipv4Prefix& prefix : view.addresses) {
    if (own.insert(prefix.address).second && !is_own(prefix.address)) {
      added.push_back(prefix.address);
    }
    if (const auto broadcast = prefix.broadcast()) broadcasts_.insert(*broadcast);
  }
  own_ = std::move(own);
  prefixes_ = view.addresses;
  return added;
}

bool HostAddresses::is_own(Ipv4Address address) const { return own_.contains(address); }

bool HostAddresses::is_broadcast(Ipv4Address address) const {
  return address.is_limited_broadcast() || broadcasts_.contains(address);
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
