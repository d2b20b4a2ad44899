// Whose word counts for the MTU of an interface: the link's, or that of an administrator who wants
// less (RFC 4391, 7).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ipoib {

class InterfaceMtu {
 public:
  /// What to set where the link allows `allowed` octets and the interface has `current`: what we
  /// have not set is the administrator's choice, which holds from then on.
  [[nodiscard]] std::uint32_t wanted(std::uint32_t allowed, std::uint32_t current) {
    if (own_ != 0 && current != own_) chosen_ = current;
    return std::min(allowed, chosen_);
  }
  void was_set(std::uint32_t octets) { own_ = octets; }

 private:
  std::uint32_t own_ = 0;  ///< the last that we set; 0: none
  std::uint32_t chosen_ = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace ipoib
