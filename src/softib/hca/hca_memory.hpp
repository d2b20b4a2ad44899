// Protection domains, memory regions and address handles of an emulated HCA (IBA 10.2.3, 10.6,
// 10.2.2.2).
//
// A key names a slot of the table in its upper 24 bits; its low 8 bits change each time the slot is
// taken, so that the key of a region that is gone does not open the next one.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::hca {

/// What a work request, its queue pair, its memory and its address handle must have in common.
struct ProtectionDomain {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< objects that belong to it; it can go when there are none
};

struct MemoryRegion {
  ProtectionDomain* pd = nullptr;  ///< null: the slot is free
  std::uint8_t* memory = nullptr;
  std::uint64_t length = 0;
  std::uint64_t address = 0;  ///< by which scatter elements name its first octet
  std::uint32_t key = 0;      ///< lkey and rkey
  int access = 0;             ///< IBV_ACCESS_*
};

/// What of a region is to become another (ibv_rereg_mr): what is given.
struct RegionChange {
  ProtectionDomain* pd = nullptr;
  void* memory = nullptr;  ///< also the address by which it is named
  std::uint64_t length = 0;
  std::optional<int> access;
};

/// An ibv_ah, since that is what work requests point to. Its attributes are copied when a request
/// is posted: it may be destroyed right after.
struct AddressHandle : ibv_ah {
  ibv_ah_attr attributes{};
  ProtectionDomain* domain = nullptr;
};

class MemoryTable {
 public:
  /// `address` is how scatter elements will name the first octet. Errors: EINVAL for an empty or
  /// wrapping range, or for access flags that make no sense; ENOMEM beyond kMaxMemoryRegions.
  [[nodiscard]] ipoib::Result<MemoryRegion> add(ProtectionDomain& pd, void* memory,
                                                std::uint64_t length, std::uint64_t address,
                                                int access);
  /// EINVAL for a region that there is not, or that cannot be; then it stays as it was.
  [[nodiscard]] ipoib::Result<void> change(std::uint32_t key, const RegionChange& change);
  /// False when there is no region of this key.
  bool remove(std::uint32_t key);
  [[nodiscard]] MemoryRegion* find(std::uint32_t key);

  /// The octets that a scatter element names, which need local write access for receiving. Null
  /// unless all of them lie in one region of `pd`.
  [[nodiscard]] std::uint8_t* resolve(const ibv_sge& element, const ProtectionDomain* pd,
                                      bool to_write) const;

 private:
  std::vector<MemoryRegion> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace softib::hca
