// A slab: objects of one type in numbered slots of one array, which is allocated once.
//
// Why: a link keeps thousands of neighbours and paths. Slots keep their addresses, so that lists,
// timers and references may point at them; a slot number is half as long as a pointer, which keeps
// the index of EntryTable small; and one array can be backed by huge pages.
// Cost: address space for all slots, memory only for those that have ever been used. make() and
// destroy() take constant time and allocate nothing.
#pragma once

#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace ipoib::link::cache {

/// The caller destroys every object that it makes; the destructor only frees the memory.
template <class T>
class Slab {
 public:
  /// A slab with room for `limit` objects.
  explicit Slab(std::size_t limit)
      : memory_(static_cast<std::byte*>(::operator new(limit * sizeof(T), kLine))),
        used_(limit / kBits + 1) {
    advise_huge_pages(limit * sizeof(T));
  }

  [[nodiscard]] T& operator[](std::uint32_t slot) const {
    return *std::launder(static_cast<T*>(memory_of(slot)));
  }
  /// The slot of an object in this slab.
  [[nodiscard]] std::uint32_t slot_of(const T& object) const {
    const auto* const at = reinterpret_cast<const std::byte*>(&object);
    return static_cast<std::uint32_t>(static_cast<std::size_t>(at - memory_.get()) / sizeof(T));
  }
  /// The slot that make() will use.
  [[nodiscard]] std::uint32_t next_slot() const { return free_ == kNone ? ever_used_ : free_; }
  /// Constructs an object in a free slot and returns the slot. Requires that there is one.
  template <class... Arguments>
  std::uint32_t make(Arguments&&... arguments) {
    const std::uint32_t slot = take();
    new (memory_of(slot)) T(std::forward<Arguments>(arguments)...);
    used_[slot / kBits] |= bit(slot);
    return slot;
  }
  void destroy(std::uint32_t slot) {
    (*this)[slot].~T();
    // A free slot holds the number of the next free slot.
    std::memcpy(memory_of(slot), &free_, sizeof free_);
    free_ = slot;
    used_[slot / kBits] ^= bit(slot);
  }
  /// Returns the first object in `slot` or a later slot, and sets `slot` to the slot after it;
  /// null if there is none.
  [[nodiscard]] T* next(std::uint32_t& slot) const {
    for (std::size_t i = slot / kBits; i < used_.size(); ++i) {
      const std::uint64_t rest = used_[i] & -bit(slot);
      if (rest != 0) {
        slot = static_cast<std::uint32_t>(i * kBits) +
               static_cast<std::uint32_t>(std::countr_zero(rest));
        return &(*this)[slot++];
      }
      slot = 0;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kBits = 64;  ///< of a word of used_
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::align_val_t kLine{64};
  static_assert(alignof(T) <= static_cast<std::size_t>(kLine));
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, kLine); }
  };

  [[nodiscard]] static std::uint64_t bit(std::uint32_t slot) {
    return std::uint64_t{1} << slot % kBits;
  }
  [[nodiscard]] void* memory_of(std::uint32_t slot) const {
    return memory_.get() + slot * sizeof(T);
  }
  /// Takes the slot that was freed last, else the first one that has never been used.
  [[nodiscard]] std::uint32_t take() {
    if (free_ == kNone) return ever_used_++;
    const std::uint32_t slot = free_;
    std::memcpy(&free_, memory_of(slot), sizeof free_);
    return slot;
  }
  /// Access is random: with pages of 4 KiB each one would miss the TLB as well as the caches. The
  /// kernel may refuse; that costs only speed.
  void advise_huge_pages(std::size_t bytes) const {
    constexpr std::size_t kPage = 4096;
    const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(memory_.get()) % kPage;
    if (bytes < skipped + kPage) return;
    (void)::madvise(memory_.get() + skipped, (bytes - skipped) / kPage * kPage, MADV_HUGEPAGE);
  }

  std::unique_ptr<std::byte, Release> memory_;
  std::vector<std::uint64_t> used_;
  std::uint32_t ever_used_ = 0;
  std::uint32_t free_ = kNone;  ///< head of the list of free slots
};

}  // namespace ipoib::link::cache
