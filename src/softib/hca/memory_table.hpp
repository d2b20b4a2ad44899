// Protection domains, memory regions and address handles of an emulated HCA (IBA 10.2.3, 10.6,
// 10.2.2.2).
//
// The upper 24 bits of a key are the index of a slot in the table. The low 8 bits change each time
// the slot is reused, so that a stale key does not give access to the next region.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::hca {

/// A work request's queue pair, memory and address handle must belong to the same domain.
struct ProtectionDomain {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< objects that belong to it; nonzero prevents destruction
};

struct MemoryRegion {
  ProtectionDomain* pd = nullptr;  ///< null: the slot is free
  std::uint8_t* memory = nullptr;
  std::uint64_t length = 0;
  std::uint64_t address = 0;  ///< address of the first byte in scatter elements
  std::uint32_t key = 0;      ///< lkey and rkey
  int access = 0;             ///< IBV_ACCESS_*
};

/// A change of a region (ibv_rereg_mr). Null members stay as they are.
struct RegionChange {
  ProtectionDomain* pd = nullptr;
  void* memory = nullptr;  ///< also becomes `address`
  std::uint64_t length = 0;
  std::optional<int> access;
};

/// Derived from ibv_ah because work requests point to one. Posting a request copies the attributes,
/// so the handle may be destroyed right after.
struct AddressHandle : ibv_ah {
  ibv_ah_attr attributes{};
  ProtectionDomain* protection_domain = nullptr;
};

class MemoryTable {
 public:
  /// `address` is the address of the first byte in scatter elements. Errors: EINVAL for an empty or
  /// wrapping range, or for invalid access flags; ENOMEM beyond kMaxMemoryRegions.
  [[nodiscard]] ipoib::Result<MemoryRegion> add(ProtectionDomain& pd, void* memory,
                                                std::uint64_t length, std::uint64_t address,
                                                int access);
  /// EINVAL, without any change, if the region does not exist or the new one would be invalid.
  [[nodiscard]] ipoib::Result<void> change(std::uint32_t key, const RegionChange& change);
  /// Returns false if no region has this key.
  bool remove(std::uint32_t key);
  [[nodiscard]] MemoryRegion* find(std::uint32_t key);

  /// Returns the memory of a scatter element; null unless all of it lies in one region of `pd`,
  /// with local write access if `to_write`.
  [[nodiscard]] std::uint8_t* resolve(const ibv_sge& element, const ProtectionDomain* pd,
                                      bool to_write) const;
  /// The same for any key and access flags.
  [[nodiscard]] std::uint8_t* resolve(std::uint32_t key, std::uint64_t address,
                                      std::uint64_t length, const ProtectionDomain* pd,
                                      int access) const;

 private:
  std::vector<MemoryRegion> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace softib::hca
