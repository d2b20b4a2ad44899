// The host's configuration of an interface at one moment, as a value.
#pragma once

#include <utility>
#include <vector>

#include "ipoib/host_view.hpp"

namespace ipoib::host {

/// Taken by the thread that speaks netlink, handed by message to the thread that owns the link.
class HostSnapshot final : public HostView {
 public:
  HostSnapshot() = default;
  explicit HostSnapshot(std::vector<Ipv4Prefix> addresses) : addresses_(std::move(addresses)) {}

  [[nodiscard]] const std::vector<Ipv4Prefix>& addresses() const override { return addresses_; }
  friend bool operator==(const HostSnapshot& a, const HostSnapshot& b) {
    return a.addresses_ == b.addresses_;
  }

 private:
  std::vector<Ipv4Prefix> addresses_;
};

}  // namespace ipoib::host
