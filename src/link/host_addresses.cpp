#include "link/host_addresses.hpp"

#include <algorithm>
#include <iterator>
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
  mac_ = view.mac.value_or(MacAddress());
  update_local(view);
  return added;
}

void HostAddresses::update_local(const HostView& view) {
  constexpr std::uint8_t kOneAddress = 32;
  arp_ = view.arp;
  arp_interface_ = view.arp_interface;
  arp_read_.reset();
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

void HostAddresses::refresh_policy(Duration age, TimePoint now) {
  if (source_ == nullptr || arp_interface_.empty()) return;
  if (arp_read_ && now <= *arp_read_ + age) return;
  arp_read_ = now;
  if (const auto policy = source_->read(arp_interface_)) arp_ = *policy;
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

bool HostAddresses::serve(const IpAddress& address, bool is_router) {
  return served_.insert_or_assign(address, is_router).second;
}

/// The address of a station with the longest prefix in common with a target: in an ordered set, one
/// of the two beside it. Unspecified if no other station has an address of this family.
template <class Address>
Address HostAddresses::nearest_station(const Address& target) const {
  const auto at = served_.lower_bound(target);
  const bool is_served = at != served_.end() && at->first == IpAddress(target);
  const auto after = is_served ? std::next(at) : at;
  const Address* best = nullptr;
  std::size_t most = 0;
  const auto compare = [&](const IpAddress& one) {
    const auto* const address = std::get_if<Address>(&one);
    if (address == nullptr) return;
    const auto& bytes = address->bytes();
    const auto differs = std::ranges::mismatch(bytes, target.bytes()).in1;
    const auto common = static_cast<std::size_t>(differs - bytes.begin());
    if (best == nullptr || common > most) best = address;
    most = std::max(most, common);
  };
  if (after != served_.end()) compare(after->first);
  if (at != served_.begin()) compare(std::prev(at)->first);
  return best == nullptr ? Address{} : *best;
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
  if (const Address station = nearest_station(target); !station.is_unspecified()) return station;
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
  return is_unicast && !speaks_for(address);
}

template Ipv6Address HostAddresses::source_among(const Ipv6Address&) const;

}  // namespace ipoib::link
