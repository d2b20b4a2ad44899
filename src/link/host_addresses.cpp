#include "link/host_addresses.hpp"

#include <algorithm>
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
  update_local(view);
  return added;
}

void HostAddresses::update_local(const HostView& view) {
  constexpr std::uint8_t kOneAddress = 32;
  arp_ = view.arp;
  of_larger_scope_ = {view.of_larger_scope.begin(), view.of_larger_scope.end()};
  proxied_ = {view.proxied.begin(), view.proxied.end()};
  local_.clear();
  local_prefixes_.clear();
  other_ = {};
  for (const IpPrefix& prefix : view.local) {
    const auto* const address = std::get_if<Ipv4Address>(&prefix.address);
    if (address == nullptr) continue;
    if (prefix.length < kOneAddress) {
      local_prefixes_.push_back(prefix);
      continue;
    }
    local_.insert(*address);
    if (other_.is_unspecified() && !is_own(*address)) other_ = *address;
  }
}

bool HostAddresses::is_local(Ipv4Address address) const {
  return is_own(address) || local_.contains(address) ||
         std::ranges::any_of(local_prefixes_,
                             [address](const IpPrefix& one) { return one.contains(address); });
}

bool HostAddresses::is_one_subnet(Ipv4Address a, Ipv4Address b) const {
  return std::ranges::any_of(
      prefixes_, [&](const IpPrefix& prefix) { return prefix.contains(a) && prefix.contains(b); });
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

Ipv4Address HostAddresses::source_for(Ipv4Address target) const {
  const Ipv4Address own = source_among(target);
  return own.is_unspecified() ? other_ : own;
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

template Ipv6Address HostAddresses::source_among(const Ipv6Address&) const;

}  // namespace ipoib::link
