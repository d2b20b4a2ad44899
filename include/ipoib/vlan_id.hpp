// The number of a VLAN (IEEE 802.1Q).
#pragma once

#include <cstdint>

#include "ipoib/strong.hpp"

namespace ipoib {

/// A number of 12 bits. With 0 a frame has a priority only, and belongs to no VLAN; 4095 is
/// reserved.
using VlanId = Strong<struct VlanIdTag, std::uint16_t>;
inline constexpr VlanId kNoVlan{0};
inline constexpr VlanId kLastVlan{4094};

}  // namespace ipoib
