// The memory regions and windows of an emulated HCA, by key (IBA 10.6).
//
// The upper 24 bits of a key are one more than the index of a slot in the table, of a region or a
// window. The low 8 bits change each time the slot is reused, so that a stale key does not give
// access to the next region. Those of a window change with each binding. The slot that has been
// free for the longest time is reused, and only when there are kLeastFreeSlots or the table is
// full.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/hca/memory_objects.hpp"
#include "softib/hca/registered_memory.hpp"

namespace softib::hca {

/// The least number of free slots before one is reused, so that a key repeats after 256 times as
/// many registrations.
inline constexpr std::size_t kLeastFreeSlots = 1024;

class MemoryTable {
 public:
  /// Without `on_demand`, there are no on-demand regions.
  explicit MemoryTable(OnDemandMemory* on_demand = nullptr) : on_demand_(on_demand) {}

  // Regions and windows count as users of their domain.
  /// `address` is the address of the first byte in scatter elements. An on-demand region at null
  /// may have all of memory. Fails with EINVAL for a wrapping range or invalid access flags, and
  /// with ENOMEM beyond kMaxMemoryRegions regions and windows.
  [[nodiscard]] ipoib::Result<MemoryRegion> add(ProtectionDomain& pd, void* memory,
                                                std::uint64_t length, std::uint64_t address,
                                                int access);
  /// Changes a region, or nothing on failure: EINVAL if it does not exist or the new one would be
  /// invalid; EBUSY if windows are bound to it.
  [[nodiscard]] ipoib::Result<void> change(std::uint32_t key, const RegionChange& change);
  /// Removes a region. Fails with EINVAL if no region has this key, and with EBUSY if windows are
  /// bound to it.
  [[nodiscard]] ipoib::Result<void> remove(std::uint32_t key);
  [[nodiscard]] MemoryRegion* find(std::uint32_t key);
  /// The region in a slot; null if there is none.
  [[nodiscard]] const MemoryRegion* at(std::size_t slot) const {
    return std::get_if<MemoryRegion>(&slots_.at(slot).use);
  }
  [[nodiscard]] std::size_t slots() const { return slots_.size(); }

  /// Returns the key of a new window, which is not bound. Fails with EINVAL for an unknown type,
  /// and with ENOMEM.
  [[nodiscard]] ipoib::Result<std::uint32_t> add_window(ProtectionDomain& pd, ibv_mw_type type);
  /// Removes a window; `window` is any key that it has had. Fails with EINVAL if there is none.
  [[nodiscard]] ipoib::Result<void> remove_window(std::uint32_t window);
  /// A work request of `by` binds a window (IBA 10.6.7.2.2). Returns false if it may not.
  [[nodiscard]] bool bind(const WindowBinding& binding, const KeyUser& by);
  /// Whether a work request of `by`, or of its peer, may invalidate this key: that of a window of
  /// type 2 that is bound, and of this queue pair.
  [[nodiscard]] bool may_invalidate(std::uint32_t key, const KeyUser& by);
  /// Invalidates a key. Requires may_invalidate().
  void invalidate(std::uint32_t key);
  /// To call when the queue pair is destroyed or reset.
  void invalidate_windows_of(Qpn user);

  /// Returns the memory of a scatter element; none unless all of it lies in one region of `pd`,
  /// with local write access if `to_write`.
  [[nodiscard]] RegisteredMemory resolve(const ibv_sge& element, const ProtectionDomain* pd,
                                         bool to_write) const;
  /// Returns the memory behind the key of a region or a window that the peer of `user` names.
  [[nodiscard]] RegisteredMemory resolve(std::uint32_t key, std::uint64_t address,
                                         std::uint64_t length, const KeyUser& user,
                                         int access) const;

 private:
  struct Slot {
    std::uint32_t key = 0;  ///< the last one, if the slot is free
    std::variant<std::monostate, MemoryRegion, MemoryWindow> use;
  };
  [[nodiscard]] ipoib::Result<std::uint32_t> take_slot();
  void release_slot(std::uint32_t key);
  [[nodiscard]] Slot* slot_of(std::uint32_t key);
  [[nodiscard]] const Slot* slot_with(std::uint32_t key) const;
  [[nodiscard]] MemoryWindow* find_window(std::uint32_t key);
  [[nodiscard]] bool may_bind(const WindowBinding& binding, const MemoryWindow& window,
                              std::uint32_t current_key, const KeyUser& by);
  void unbind(MemoryWindow& window);
  [[nodiscard]] RegisteredMemory part_of(const MemoryRegion& region, std::uint64_t offset,
                                         std::uint64_t length) const;
  [[nodiscard]] RegisteredMemory resolve(const MemoryRegion& region, std::uint64_t address,
                                         std::uint64_t length, const ProtectionDomain* pd,
                                         int access) const;
  [[nodiscard]] RegisteredMemory resolve(const MemoryWindow& window, std::uint64_t address,
                                         std::uint64_t length, const KeyUser& user,
                                         int access) const;

  OnDemandMemory* on_demand_;
  std::vector<Slot> slots_;
  std::deque<std::uint32_t> free_;
  std::uint32_t bound_windows_ = 0;  ///< of type 2
};

}  // namespace softib::hca
