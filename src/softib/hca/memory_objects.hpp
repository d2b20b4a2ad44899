// Protection domains, memory regions, memory windows and address handles of an emulated HCA (IBA
// 10.2.3, 10.6, 10.2.2.2). Their keys are in memory_table.hpp.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <cstdint>
#include <optional>

#include "softib/core/fabric_types.hpp"

namespace softib::hca {

/// A work request's queue pair, memory and address handle must belong to the same domain.
struct ProtectionDomain {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< objects that belong to it; nonzero prevents destruction
};

struct MemoryRegion {
  ProtectionDomain* pd = nullptr;
  std::uint8_t* memory = nullptr;
  std::uint64_t length = 0;
  std::uint64_t address = 0;  ///< address of the first byte in scatter elements
  std::uint32_t key = 0;      ///< lkey and rkey
  int access = 0;             ///< IBV_ACCESS_*
  std::uint32_t windows = 0;  ///< bound to it; nonzero prevents deregistration

  /// `memory` of an implicit region (all of the program's memory) is null, and an offset may not be
  /// added to a null pointer.
  [[nodiscard]] std::uint8_t* at(std::uint64_t offset) const {
    return std::bit_cast<std::uint8_t*>(std::bit_cast<std::uintptr_t>(memory) + offset);
  }
};

/// A change of a region (ibv_rereg_mr). Null members stay as they are.
struct RegionChange {
  ProtectionDomain* pd = nullptr;
  void* memory = nullptr;  ///< also becomes `address`, unless the region is zero-based
  std::uint64_t length = 0;
  std::optional<int> access;
};

/// The binding of a window, present or requested.
struct WindowBinding {
  std::uint32_t window = 0;   ///< any key that the window has had
  std::uint32_t key = 0;      ///< its key from now on
  std::uint32_t region = 0;   ///< key
  std::uint64_t address = 0;  ///< in the region
  std::uint64_t length = 0;   ///< 0: the window is not bound
  int access = 0;             ///< IBV_ACCESS_REMOTE_*, IBV_ACCESS_ZERO_BASED
};

/// Remote access to a part of a region. The lender changes it by work requests, without the cost of
/// a registration (IBA 10.6.7).
struct MemoryWindow {
  ProtectionDomain* pd = nullptr;
  ibv_mw_type type{};
  WindowBinding bound{};
  Qpn user{};  ///< the queue pair whose peer may use it; of type 2
};

/// The queue pair whose peer uses a key.
struct KeyUser {
  const ProtectionDomain* pd = nullptr;
  Qpn qp{};
};

/// Derived from ibv_ah because work requests point to one. Posting a request copies the attributes,
/// so the handle may be destroyed right after.
struct AddressHandle : ibv_ah {
  ibv_ah_attr attributes{};
  ProtectionDomain* protection_domain = nullptr;
};

}  // namespace softib::hca
