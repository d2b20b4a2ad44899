#include "softib/hca/memory_table.hpp"

#include <bit>
#include <cerrno>
#include <limits>

#include "softib/hca/limits.hpp"

namespace softib::hca {
namespace {

using ipoib::Error;

constexpr unsigned kKeyBits = 8;  // the low part of a key, which changes with each use of its slot

/// "Remote Write or Remote Atomic require Local Write" (IBA 11.2.8.2). Flags that plain memory
/// regions do not support are invalid, too.
bool is_valid_access(int access) {
  constexpr int kRemoteModification = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  constexpr int kKnown = IBV_ACCESS_LOCAL_WRITE | kRemoteModification | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
                         IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & ~kKnown) != 0) return false;
  return (access & kRemoteModification) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

bool wraps(std::uint64_t address, std::uint64_t length) {
  return length > std::numeric_limits<std::uint64_t>::max() - address;
}

std::optional<Error> validate(const MemoryRegion& region) {
  if (region.length == 0 || wraps(std::bit_cast<std::uintptr_t>(region.memory), region.length) ||
      wraps(region.address, region.length)) {
    return Error{EINVAL, "a memory region must not be empty or wrap around the end of memory"};
  }
  if (!is_valid_access(region.access)) {
    return Error{EINVAL, "invalid access flags for a memory region"};
  }
  return std::nullopt;
}

}  // namespace

ipoib::Result<MemoryRegion> MemoryTable::add(ProtectionDomain& pd, void* memory,
                                             std::uint64_t length, std::uint64_t address,
                                             int access) {
  MemoryRegion region{&pd, static_cast<std::uint8_t*>(memory), length, address, 0, access};
  if (const auto error = validate(region)) return *error;
  if (free_.empty()) {
    if (slots_.size() == kMaxMemoryRegions) return Error{ENOMEM, "too many memory regions"};
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const auto index = free_.back();
  free_.pop_back();
  MemoryRegion& slot = slots_[index];
  const auto low = static_cast<std::uint8_t>(slot.key + 1);
  region.key = (index + 1) << kKeyBits | low;
  slot = region;
  return slot;
}

ipoib::Result<void> MemoryTable::change(std::uint32_t key, const RegionChange& change) {
  MemoryRegion* const region = find(key);
  if (region == nullptr) return Error{EINVAL, "no memory region has this key"};
  MemoryRegion next = *region;
  if (change.pd != nullptr) next.pd = change.pd;
  if (change.memory != nullptr) {
    next.memory = static_cast<std::uint8_t*>(change.memory);
    next.address = std::bit_cast<std::uint64_t>(change.memory);
    next.length = change.length;
  }
  next.access = change.access.value_or(next.access);
  if (const auto error = validate(next)) return *error;
  --region->pd->users;
  ++next.pd->users;
  *region = next;
  return {};
}

bool MemoryTable::remove(std::uint32_t key) {
  MemoryRegion* const region = find(key);
  if (region == nullptr) return false;
  region->pd = nullptr;
  free_.push_back((key >> kKeyBits) - 1);
  return true;
}

MemoryRegion* MemoryTable::find(std::uint32_t key) {
  const std::size_t index = std::size_t{key >> kKeyBits} - 1;
  if (index >= slots_.size()) return nullptr;
  MemoryRegion& slot = slots_[index];
  return slot.key == key && slot.pd != nullptr ? &slot : nullptr;
}

std::uint8_t* MemoryTable::resolve(const ibv_sge& element, const ProtectionDomain* pd,
                                   bool to_write) const {
  return resolve(element.lkey, element.addr, element.length, pd,
                 to_write ? int{IBV_ACCESS_LOCAL_WRITE} : 0);
}

std::uint8_t* MemoryTable::resolve(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                                   const ProtectionDomain* pd, int access) const {
  const std::size_t index = std::size_t{key >> kKeyBits} - 1;
  if (index >= slots_.size()) return nullptr;
  const MemoryRegion& region = slots_[index];
  if (region.key != key || region.pd == nullptr || region.pd != pd) return nullptr;
  if ((region.access & access) != access) return nullptr;
  const auto offset = address - region.address;
  if (address < region.address || offset > region.length || length > region.length - offset) {
    return nullptr;
  }
  return region.memory + offset;
}

}  // namespace softib::hca
