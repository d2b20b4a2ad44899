// Objects in numbered places that never move, in chunks that are allocated when they are first
// needed and kept: what is made later takes the places of what is gone.
#pragma once

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
  explicit Places(std::size_t limit) { chunks_.reserve(limit / kChunk + 1); }

  [[nodiscard]] T& operator[](std::uint32_t place) const {
    return *std::launder(static_cast<T*>(memory_of(place)));
  }
  template <class... Arguments>
  std::uint32_t make(Arguments&&... arguments) {
    const std::uint32_t place = take();
    new (memory_of(place)) T(std::forward<Arguments>(arguments)...);
    return place;
  }
  void destroy(std::uint32_t place) {
    (*this)[place].~T();
    // What is free has the number of the next one that is.
    std::memcpy(memory_of(place), &free_, sizeof free_);
    free_ = place;
    chunks_[place / kChunk]->used ^= bit(place);
  }
  /// The first object in `place` or after it, which then is the place after that one; null: none.
  [[nodiscard]] T* next(std::uint32_t& place) const {
    for (std::size_t i = place / kChunk; i < chunks_.size(); ++i) {
      const std::uint64_t rest = chunks_[i]->used & -bit(place);
      if (rest != 0) {
        place = static_cast<std::uint32_t>(i * kChunk) +
                static_cast<std::uint32_t>(std::countr_zero(rest));
        return &(*this)[place++];
      }
      place = 0;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kChunk = 64;  ///< bits of Chunk::used
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct alignas(64) Chunk {
    std::byte memory[kChunk * sizeof(T)];
    std::uint64_t used;
  };

  [[nodiscard]] static std::uint64_t bit(std::uint32_t place) {
    return std::uint64_t{1} << place % kChunk;
  }
  [[nodiscard]] void* memory_of(std::uint32_t place) const {
    return chunks_[place / kChunk]->memory + place % kChunk * sizeof(T);
  }
  /// One that was given back, or the first that has never been used.
  [[nodiscard]] std::uint32_t take() {
    std::uint32_t place = free_;
    if (place == kNone) {
      place = ever_used_++;
      if (place % kChunk == 0) chunks_.push_back(std::make_unique<Chunk>());
    } else {
      std::memcpy(&free_, memory_of(place), sizeof free_);
    }
    chunks_[place / kChunk]->used |= bit(place);
    return place;
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::uint32_t ever_used_ = 0;
  std::uint32_t free_ = kNone;  ///< the first one
};

}  // namespace ipoib::link
