// Decides the MTU of an interface: that of the link, or a smaller one that the operator has
// configured (RFC 4391, 7).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ipoib {

class InterfaceMtu {
 public:
  /// The MTU to set if the link allows `allowed` bytes and the interface has `current`. A current
  /// value that we did not set is the operator's choice, and remains the limit.
  [[nodiscard]] std::uint32_t wanted(std::uint32_t allowed, std::uint32_t current) {
    if (own_ != 0 && current != own_) chosen_ = current;
    return std::min(allowed, chosen_);
  }
  void was_set(std::uint32_t mtu) { own_ = mtu; }

 private:
  std::uint32_t own_ = 0;  ///< the last MTU that we set; 0: none
  std::uint32_t chosen_ = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace ipoib
