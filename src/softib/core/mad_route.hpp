// Routes a MAD to its process by the high half of its transaction ID. The umad layer writes it into
// requests, and responses carry it back. It also identifies the sender of subnet management packets
// that a port sends before it has a LID.
//
//   | node 12 | slot 8 | epoch 4 | agent 8 |      the high half
#pragma once

#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"

namespace softib {

struct MadRoute {
  static constexpr unsigned kAgentBits = 8;
  static constexpr unsigned kEpochBits = 4;
  static constexpr std::uint32_t kMaxAgents = 1U << kAgentBits;
  /// The agent of softib itself, for the RDMA connection manager. Agents of libibumad have the
  /// other numbers.
  static constexpr std::uint32_t kOwnAgent = kMaxAgents - 1;
  static_assert(kMaxNodes == 1U << (32 - QpnLayout::kSlotBits - kEpochBits - kAgentBits));
  static_assert(QpnLayout::kMaxEpoch < 1U << kEpochBits);

  NodeIndex node = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t agent = 0;  ///< index of the agent within its process

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

/// Whether the subnet process handles requests of this class for every node.
[[nodiscard]] constexpr bool is_served_by_subnet(std::uint8_t management_class) {
  return is_smp(management_class) || management_class == ipoib::wire::mgmt_class::kPerf;
}

}  // namespace softib
