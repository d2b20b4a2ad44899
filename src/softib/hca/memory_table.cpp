// Memory regions. The windows on them are in memory_windows.cpp.
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
                         IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
                         IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & ~kKnown) != 0) return false;
  return (access & kRemoteModification) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

bool wraps(std::uint64_t address, std::uint64_t length) {
  return length > std::numeric_limits<std::uint64_t>::max() - address;
}

std::optional<Error> validate(const MemoryRegion& region, bool has_on_demand) {
  if (wraps(std::bit_cast<std::uintptr_t>(region.memory), region.length) ||
      wraps(region.address, region.length)) {
    return Error{EINVAL,
                 "the memory region wraps around the end of the address space: address plus length "
                 "must fit 64 bits"};
  }
  const bool is_on_demand = (region.access & IBV_ACCESS_ON_DEMAND) != 0;
  if (!is_valid_access(region.access) || (is_on_demand && !has_on_demand)) {
    return Error{EINVAL, "invalid access flags for a memory region"};
  }
  return std::nullopt;
}

Error no_such_region() { return Error{EINVAL, "no memory region has this key"}; }
Error has_windows() {
  return Error{
      EBUSY, "memory windows are bound to the memory region: deallocate or invalidate them before"};
}

}  // namespace

ipoib::Result<std::uint32_t> MemoryTable::take_slot() {
  auto index = static_cast<std::uint32_t>(slots_.size());
  if (free_.size() < kLeastFreeSlots && index < kMaxMemoryRegions) {
    slots_.emplace_back();
  } else if (free_.empty()) {
    return Error{
        ENOMEM,
        "a process can have " + std::to_string(kMaxMemoryRegions) +
            " memory regions and windows on an HCA: use several HCAs (softib run --hca A,B)"};
  } else {
    index = free_.front();
    free_.pop_front();
  }
  Slot& slot = slots_[index];
  const auto low = static_cast<std::uint8_t>(slot.key + 1);
  slot.key = (index + 1) << kKeyBits | low;
  return slot.key;
}

void MemoryTable::release_slot(std::uint32_t key) {
  slot_of(key)->use = std::monostate();
  free_.push_back((key >> kKeyBits) - 1);
}

/// The slot that the key belongs to, whatever its low part is; null if there is none.
MemoryTable::Slot* MemoryTable::slot_of(std::uint32_t key) {
  const std::size_t index = std::size_t{key >> kKeyBits} - 1;
  return index < slots_.size() ? &slots_[index] : nullptr;
}

/// The slot that has the key now.
const MemoryTable::Slot* MemoryTable::slot_with(std::uint32_t key) const {
  const std::size_t index = std::size_t{key >> kKeyBits} - 1;
  return index < slots_.size() && slots_[index].key == key ? &slots_[index] : nullptr;
}

ipoib::Result<MemoryRegion> MemoryTable::add(ProtectionDomain& pd, void* memory,
                                             std::uint64_t length, std::uint64_t address,
                                             int access) {
  const MemoryRegion region{&pd, static_cast<std::uint8_t*>(memory), length, address, 0, access};
  if (const auto error = validate(region, on_demand_ != nullptr)) return *error;
  const auto key = take_slot();
  if (!key) return key.error();
  MemoryRegion& added = slot_of(*key)->use.emplace<MemoryRegion>(region);
  added.key = *key;
  ++pd.users;
  return added;
}

ipoib::Result<void> MemoryTable::change(std::uint32_t key, const RegionChange& change) {
  MemoryRegion* const region = find(key);
  if (region == nullptr) return no_such_region();
  if (region->windows != 0) return has_windows();
  MemoryRegion next = *region;
  if (change.pd != nullptr) next.pd = change.pd;
  next.access = change.access.value_or(next.access);
  if (change.memory != nullptr) {
    next.memory = static_cast<std::uint8_t*>(change.memory);
    next.length = change.length;
  }
  const bool is_zero_based = (next.access & IBV_ACCESS_ZERO_BASED) != 0;
  const bool was_zero_based = (region->access & IBV_ACCESS_ZERO_BASED) != 0;
  if (is_zero_based) {
    next.address = 0;
  } else if (change.memory != nullptr || was_zero_based) {
    next.address = std::bit_cast<std::uint64_t>(next.memory);
  }
  if (const auto error = validate(next, on_demand_ != nullptr)) return *error;
  --region->pd->users;
  ++next.pd->users;
  *region = next;
  return {};
}

ipoib::Result<void> MemoryTable::remove(std::uint32_t key) {
  MemoryRegion* const region = find(key);
  if (region == nullptr) return no_such_region();
  if (region->windows != 0) return has_windows();
  --region->pd->users;
  release_slot(key);
  return {};
}

MemoryRegion* MemoryTable::find(std::uint32_t key) {
  return slot_with(key) != nullptr ? std::get_if<MemoryRegion>(&slot_of(key)->use) : nullptr;
}

RegisteredMemory MemoryTable::resolve(const ibv_sge& element, const ProtectionDomain* pd,
                                      bool to_write) const {
  const auto* const slot = slot_with(element.lkey);
  // "An R_Key of a window is no L_Key" (IBA 10.6.7.1).
  if (slot == nullptr || !std::holds_alternative<MemoryRegion>(slot->use)) return {};
  return resolve(std::get<MemoryRegion>(slot->use), element.addr, element.length, pd,
                 to_write ? int{IBV_ACCESS_LOCAL_WRITE} : 0);
}

RegisteredMemory MemoryTable::resolve(std::uint32_t key, std::uint64_t address,
                                      std::uint64_t length, const KeyUser& user, int access) const {
  const auto* const slot = slot_with(key);
  if (slot == nullptr) return {};
  if (const auto* const window = std::get_if<MemoryWindow>(&slot->use)) {
    return resolve(*window, address, length, user, access);
  }
  const auto* const region = std::get_if<MemoryRegion>(&slot->use);
  return region != nullptr ? resolve(*region, address, length, user.pd, access)
                           : RegisteredMemory();
}

RegisteredMemory MemoryTable::resolve(const MemoryRegion& region, std::uint64_t address,
                                      std::uint64_t length, const ProtectionDomain* pd,
                                      int access) const {
  if (region.pd != pd) return {};
  if ((region.access & access) != access || address < region.address) return {};
  return part_of(region, address - region.address, length);
}

RegisteredMemory MemoryTable::part_of(const MemoryRegion& region, std::uint64_t offset,
                                      std::uint64_t length) const {
  if (offset > region.length || length > region.length - offset) return {};
  const bool is_on_demand = (region.access & IBV_ACCESS_ON_DEMAND) != 0;
  return {region.at(offset), is_on_demand ? on_demand_ : nullptr};
}

}  // namespace softib::hca
