// What belongs to the host itself: its MACs and addresses, from the last HostView.
#pragma once

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ipoib/host_view.hpp"

namespace ipoib::ethernet {

class HostIdentity {
 public:
  void update(const HostView& view) {
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
  }

  /// Of the interface, or of the bridge that it is a port of.
  [[nodiscard]] MacAddress mac() const { return mac_; }
  /// Everything is the host's until its MAC is known.
  [[nodiscard]] bool is_mac(MacAddress mac) const { return mac == mac_ || mac_.is_zero(); }
  /// Of another interface of the host that may be behind the TAP, too.
  [[nodiscard]] bool is_other_mac(MacAddress mac) const { return macs_.contains(mac); }
  [[nodiscard]] bool is_own(const IpAddress& address) const { return own_.contains(address); }
  [[nodiscard]] const std::unordered_set<IpAddress>& own() const { return own_; }
  /// Of the host, on any interface.
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
};

}  // namespace ipoib::ethernet
