// Objects in numbered places that never move, in one array: what is made later takes the places of
// what is gone. The kernel gives memory, page by page, for those that have ever been used.
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

namespace ipoib::link {

/// Whoever makes an object in it destroys it.
template <class T>
class Places {
 public:
  /// Up to `limit` of them at a time.
  explicit Places(std::size_t limit)
      : memory_(static_cast<std::byte*>(::operator new(limit * sizeof(T), kLine))),
        used_(limit / kBits + 1) {
    advise_large_pages(limit * sizeof(T));
  }

  [[nodiscard]] T& operator[](std::uint32_t place) const {
    return *std::launder(static_cast<T*>(memory_of(place)));
  }
  template <class... Arguments>
  std::uint32_t make(Arguments&&... arguments) {
    const std::uint32_t place = take();
    new (memory_of(place)) T(std::forward<Arguments>(arguments)...);
    used_[place / kBits] |= bit(place);
    return place;
  }
  void destroy(std::uint32_t place) {
    (*this)[place].~T();
    // What is free has the number of the next one that is.
    std::memcpy(memory_of(place), &free_, sizeof free_);
    free_ = place;
    used_[place / kBits] ^= bit(place);
  }
  /// The first object in `place` or after it, which then is the place after that one; null: none.
  [[nodiscard]] T* next(std::uint32_t& place) const {
    for (std::size_t i = place / kBits; i < used_.size(); ++i) {
      const std::uint64_t rest = used_[i] & -bit(place);
      if (rest != 0) {
        place = static_cast<std::uint32_t>(i * kBits) +
                static_cast<std::uint32_t>(std::countr_zero(rest));
        return &(*this)[place++];
      }
      place = 0;
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

  [[nodiscard]] static std::uint64_t bit(std::uint32_t place) {
    return std::uint64_t{1} << place % kBits;
  }
  [[nodiscard]] void* memory_of(std::uint32_t place) const {
    return memory_.get() + place * sizeof(T);
  }
  /// One that was given back, or the first that has never been used.
  [[nodiscard]] std::uint32_t take() {
    if (free_ == kNone) return ever_used_++;
    const std::uint32_t place = free_;
    std::memcpy(&free_, memory_of(place), sizeof free_);
    return place;
  }
  /// Places are drawn at random by those who use them; with pages of 4 KiB, each draw would miss
  /// the TLB besides the caches. A wish: without such pages it is slower, and nothing else.
  void advise_large_pages(std::size_t octets) const {
    constexpr std::size_t kPage = 4096;
    const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(memory_.get()) % kPage;
    if (octets < skipped + kPage) return;
    (void)::madvise(memory_.get() + skipped, (octets - skipped) / kPage * kPage, MADV_HUGEPAGE);
  }

  std::unique_ptr<std::byte, Release> memory_;
  std::vector<std::uint64_t> used_;
  std::uint32_t ever_used_ = 0;
  std::uint32_t free_ = kNone;  ///< the first one
};

}  // namespace ipoib::link
