// How a MAD finds its process (docs/architecture.md): by the high half of its transaction id, which
// the umad layer writes into requests, and which responses bring back.
//
//   | epoch 8 | place 6 | agent 18 |      the high half
#pragma once

#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"

namespace softib {

struct MadRoute {
  static constexpr unsigned kAgentBits = 18;
  static constexpr std::uint32_t kMaxAgents = 1U << kAgentBits;

  std::uint32_t epoch = 0;
  std::uint32_t place = 0;
  std::uint32_t agent = 0;  ///< counts through the agents of a process

  [[nodiscard]] constexpr std::uint32_t high_half() const {
    return (epoch << QpnLayout::kPlaceBits | place) << kAgentBits | agent;
  }
  [[nodiscard]] static constexpr MadRoute of(std::uint64_t transaction_id) {
    const auto high = static_cast<std::uint32_t>(transaction_id >> 32);
    return {high >> (QpnLayout::kPlaceBits + kAgentBits),
            high >> kAgentBits & (QpnLayout::kPlaces - 1), high & (kMaxAgents - 1)};
  }
};

[[nodiscard]] constexpr bool is_smp(std::uint8_t management_class) {
  return management_class == ipoib::wire::mgmt_class::kSubnLid ||
         management_class == ipoib::wire::mgmt_class::kSubnDirected;
}

/// Requests of the classes that the subnet process serves for every node.
[[nodiscard]] constexpr bool is_served_by_subnet(std::uint8_t management_class) {
  return is_smp(management_class) || management_class == ipoib::wire::mgmt_class::kPerf;
}

}  // namespace softib
