#include "link/host_addresses.hpp"

#include <utility>

namespace ipoib::link {

std::vector<IpAddress> HostAddresses::update(const HostView& view) {
  std::vector<IpAddress> added;
  std::unordered_set<IpAddress> own;
  broadcasts_.clear();
  for (const IpPrefix& prefix : view.addresses) {
    if (own.insert(prefix.address).second && !is_own(prefix.address)) {
      added.push_back(prefix.address);
    }
    if (const auto broadcast = prefix.broadcast()) broadcasts_.insert(*broadcast);
  }
  own_ = std::move(own);
  prefixes_ = view.addresses;
  is_ipv6_router_ = view.is_ipv6_router;
  return added;
}

bool HostAddresses::is_broadcast(Ipv4Address address) const {
  return address.is_limited_broadcast() || broadcasts_.contains(address);
}

bool HostAddresses::can_be_neighbour(const IpAddress& address) const {
  const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
  if (ipv4 != nullptr && is_broadcast(*ipv4)) return false;
  const bool is_unicast = std::visit(
      [](const auto& any) {
        return !any.is_unspecified() && !any.is_loopback() && !any.is_multicast();
      },
      address);
  return is_unicast && !is_own(address);
}

template <class Address>
Address HostAddresses::source_among(const Address& target) const {
  const Address* any = nullptr;
  for (const IpPrefix& prefix : prefixes_) {
    const auto* const address = std::get_if<Address>(&prefix.address);
    if (address == nullptr) continue;
    if (prefix.contains(target)) return *address;
    if (any == nullptr) any = address;
  }
  return any == nullptr ? Address{} : *any;
}

template Ipv4Address HostAddresses::source_among(const Ipv4Address&) const;
template Ipv6Address HostAddresses::source_among(const Ipv6Address&) const;

}  // namespace ipoib::link
