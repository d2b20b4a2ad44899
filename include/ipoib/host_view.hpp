// Seam: what the host has configured on an interface, mirrored from the kernel.
// Implemented by src/linux over rtnetlink, and as a plain value in tests/sim.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/ip_prefix.hpp"

namespace ipoib {

class HostView {
 public:
  virtual ~HostView() = default;

  /// The interface's IPv4 addresses with their prefixes, in the kernel's order.
  [[nodiscard]] virtual const std::vector<Ipv4Prefix>& addresses() const = 0;
};

}  // namespace ipoib
