// Communication IDs (IBA 12.6.2) identify the process that has the connection, as queue pair
// numbers do: MADs of class 7 are all of method Send, so no transaction ID can route them.
//
//   | epoch 4 | slot 8 | index 20 |
//
// The epoch of a slot grows each time the slot is taken, and is never 0; so 0 is no ID.
#pragma once

#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "wire/cm_messages.hpp"

namespace softib {

using ipoib::wire::CommId;

struct CommIdLayout {
  static constexpr unsigned kIndexBits = 20;
  static constexpr std::uint32_t kIndices = 1U << kIndexBits;
  static_assert(QpnLayout::kMaxEpoch < 1U << (32 - QpnLayout::kSlotBits - kIndexBits));

  [[nodiscard]] static constexpr CommId make(std::uint32_t epoch, std::uint32_t slot,
                                             std::uint32_t index) {
    return CommId((epoch << QpnLayout::kSlotBits | slot) << kIndexBits | index);
  }
  [[nodiscard]] static constexpr std::uint32_t slot(CommId id) {
    return id.value() >> kIndexBits & (QpnLayout::kSlots - 1);
  }
  [[nodiscard]] static constexpr std::uint32_t epoch(CommId id) {
    return id.value() >> (kIndexBits + QpnLayout::kSlotBits);
  }
};

}  // namespace softib
