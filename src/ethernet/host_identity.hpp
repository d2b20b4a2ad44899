// The MACs and addresses of the host itself, from the last HostView. The host may have several
// interfaces at a TAP, such as the bridge that the TAP is a port of, and macvlan interfaces on it,
// which have MACs of their own.
#pragma once

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <vector>

#include "ipoib/host_view.hpp"

namespace ipoib::ethernet {

class HostIdentity {
 public:
  /// Takes over a new view, and returns the addresses that interfaces of the host no longer have.
  std::vector<LinkAddress> update(const HostView& view) {
    mac_ = view.mac.value_or(mac_);
    macs_ = {view.macs.begin(), view.macs.end()};
    own_.clear();
    broadcasts_.clear();
    for (const IpPrefix& prefix : view.addresses) {
      own_.insert(prefix.address);
      if (const auto broadcast = prefix.broadcast()) broadcasts_.insert(*broadcast);
    }
    local_.clear();
    local_prefixes_.clear();
    constexpr std::uint8_t kOneAddress = 32;
    for (const IpPrefix& prefix : view.local) {
      if (prefix.length < kOneAddress) {
        local_prefixes_.push_back(prefix);
      } else {
        local_.insert(prefix.address);
      }
    }
    for (const auto& [mac, address] : view.link_addresses) {
      const auto* const ipv6 = std::get_if<Ipv6Address>(&address);
      if (ipv6 != nullptr && !ipv6->is_link_local()) local_.insert(address);
    }
    groups_ = {view.groups.begin(), view.groups.end()};
    is_proxy_ = view.arp.proxy;
    proxied_ = {view.proxied.begin(), view.proxied.end()};
    std::vector<LinkAddress> gone;
    std::ranges::set_difference(link_addresses_, view.link_addresses, std::back_inserter(gone));
    link_addresses_ = view.link_addresses;
    return gone;
  }

  /// The MAC of the interface, or of the bridge that it is a port of.
  [[nodiscard]] MacAddress mac() const { return mac_; }
  /// Whether a MAC is the host's. Until the host's MAC is known, each is.
  [[nodiscard]] bool is_mac(MacAddress mac) const { return mac == mac_ || mac_.is_zero(); }
  /// Whether a MAC is that of another interface of the host, which may be at the TAP, too.
  [[nodiscard]] bool is_other_mac(MacAddress mac) const { return macs_.contains(mac); }
  /// Whether the interface of the host with this MAC has the address.
  [[nodiscard]] bool has(MacAddress mac, const IpAddress& address) const {
    return std::ranges::binary_search(link_addresses_, LinkAddress{mac, address});
  }
  [[nodiscard]] const std::vector<LinkAddress>& link_addresses() const { return link_addresses_; }
  /// Whether a message of ARP or Neighbour Discovery, or a report of a group, from this MAC and
  /// address is the host's, and says nothing about a station. Other addresses with the host's MAC
  /// are those of its ipvlan interfaces. An address of an interface with a MAC of its own is that
  /// of a station: packets to it need this MAC.
  [[nodiscard]] bool is_sender(MacAddress mac, const IpAddress& address) const {
    if (mac_.is_zero()) return true;
    const bool is_unspecified =
        std::visit([](const auto& any) { return any.is_unspecified(); }, address);
    if (mac == mac_) return is_unspecified || is_local(address);
    return is_other_mac(mac) && is_local(address) && !has(mac, address);
  }
  /// Whether the host is a member of the group on the interface itself.
  [[nodiscard]] bool is_in_group(const IpAddress& group) const { return groups_.contains(group); }
  /// Whether the host replies to ARP requests for an address that is not its own.
  [[nodiscard]] bool is_proxy_for(Ipv4Address address) const {
    return is_proxy_ || proxied_.contains(address);
  }
  [[nodiscard]] bool is_own(const IpAddress& address) const { return own_.contains(address); }
  [[nodiscard]] const std::unordered_set<IpAddress>& own() const { return own_; }
  /// The host's addresses on any interface, without prefixes.
  [[nodiscard]] const std::unordered_set<IpAddress>& local() const { return local_; }
  /// Whether the host has the address on any interface.
  [[nodiscard]] bool is_local(const IpAddress& address) const {
    return is_own(address) || local_.contains(address) ||
           std::ranges::any_of(local_prefixes_,
                               [&](const IpPrefix& one) { return one.contains(address); });
  }
  [[nodiscard]] bool is_broadcast(const IpAddress& address) const {
    return broadcasts_.contains(address);
  }

 private:
  MacAddress mac_;
  std::unordered_set<MacAddress> macs_;
  std::unordered_set<IpAddress> own_;
  std::unordered_set<IpAddress> broadcasts_;
  std::unordered_set<IpAddress> local_;
  std::vector<IpPrefix> local_prefixes_;
  std::vector<LinkAddress> link_addresses_;  ///< sorted
  std::unordered_set<IpAddress> groups_;
  std::unordered_set<Ipv4Address> proxied_;
  bool is_proxy_ = false;
};

}  // namespace ipoib::ethernet
