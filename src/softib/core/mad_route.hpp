// How a MAD finds its process (docs/architecture.md): by the high half of its transaction id, which
// the umad layer writes into requests, and which responses bring back. It says as well who asks
// where no LID does: a port may send subnet management packets before it has one.
//
//   | node 10 | slot 6 | epoch 8 | agent 8 |      the high half
#pragma once

#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"

namespace softib {

struct MadRoute {
  static constexpr unsigned kAgentBits = 8;
  static constexpr unsigned kEpochBits = 8;
  static constexpr std::uint32_t kMaxAgents = 1U << kAgentBits;
  static_assert(kMaxNodes == 1U << (32 - QpnLayout::kSlotBits - kEpochBits - kAgentBits));
  static_assert(QpnLayout::kMaxEpoch < 1U << kEpochBits);

  NodeIndex node = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t agent = 0;  ///< counts through the agents of a process

  [[nodiscard]] constexpr std::uint32_t high_half() const {
    const std::uint32_t process = std::uint32_t{node} << QpnLayout::kSlotBits | slot;
    return (process << kEpochBits | epoch) << kAgentBits | agent;
  }
  [[nodiscard]] static constexpr MadRoute of(std::uint64_t transaction_id) {
    const auto high = static_cast<std::uint32_t>(transaction_id >> 32);
    const std::uint32_t process = high >> (kEpochBits + kAgentBits);
    return {static_cast<NodeIndex>(process >> QpnLayout::kSlotBits),
            process & (QpnLayout::kSlots - 1), high >> kAgentBits & ((1U << kEpochBits) - 1),
            high & (kMaxAgents - 1)};
  }
  friend bool operator==(const MadRoute&, const MadRoute&) = default;
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
