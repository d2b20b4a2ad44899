// Leads from a key to the slot of its entry, usually: a hash table that may forget.
//
// Any hash that is cheap will do, and anybody may know it: a search reads a window of 16 words, and
// what finds no room in its window is not kept. Whoever fills the window of a key only makes its
// look-ups search the index.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ipoib::link::cache {

class Hints {
 public:
  /// Where a window begins, and the bits of the hash in a word.
  struct Probe {
    std::size_t at;
    std::uint32_t tag;
  };

  /// Hints for `limit` slots, which is less than 2^21 - 1.
  explicit Hints(std::size_t limit) : words_(std::bit_ceil(limit * 8 / 7 + 1)) {}

  /// Multiplication mixes best into the top bits: they select the word, those below are the tag.
  [[nodiscard]] Probe probe_of(std::size_t key) const {
    const std::uint64_t hash = key * 0x9e3779b97f4a7c15ULL;
    return {static_cast<std::size_t>(hash >> std::countl_zero(std::uint64_t{mask()})),
            static_cast<std::uint32_t>(hash >> 10) & kTagMask};
  }
  void prefetch(const Probe& probe) const { __builtin_prefetch(&words_[probe.at]); }
  /// Finds a slot with the same tag.
  [[nodiscard]] std::optional<std::uint32_t> find(const Probe& probe) const {
    // There is no branch for each word: the number of steps is random, so it would be mispredicted.
    std::uint32_t found = kEmpty;
    for (std::size_t i = kNear; i-- > 0;) {
      const std::uint32_t word = word_at(probe, i);
      found = (word & kTagMask) == probe.tag ? word : found;
    }
    for (std::size_t i = kNear; found == kEmpty && i < kWindow; ++i) {
      if ((word_at(probe, i) & kTagMask) == probe.tag) found = word_at(probe, i);
    }
    if (found == kEmpty) return std::nullopt;
    return (found & ~kTagMask) - 1;
  }
  void insert(const Probe& probe, std::uint32_t slot) {
    if (!replace(probe, probe.tag | (slot + 1), probe.tag | (slot + 1))) {
      replace(probe, kEmpty, probe.tag | (slot + 1));
    }
  }
  void erase(const Probe& probe, std::uint32_t slot) {
    replace(probe, probe.tag | (slot + 1), kEmpty);
  }

 private:
  static constexpr std::size_t kNear = 4;  ///< words that find() always reads
  static constexpr std::size_t kWindow = 16;
  static constexpr std::uint32_t kTagMask = ~std::uint32_t{0} << 21;
  static constexpr std::uint32_t kEmpty = 0;  ///< any other word is tag | (slot + 1)

  [[nodiscard]] std::size_t mask() const { return words_.size() - 1; }
  [[nodiscard]] std::uint32_t word_at(const Probe& probe, std::size_t i) const {
    return words_[(probe.at + i) & mask()];
  }
  /// Replaces the first word `before` in the window; returns false if there is none.
  bool replace(const Probe& probe, std::uint32_t before, std::uint32_t after) {
    for (std::size_t i = 0; i < kWindow; ++i) {
      if (word_at(probe, i) != before) continue;
      words_[(probe.at + i) & mask()] = after;
      return true;
    }
    return false;
  }

  std::vector<std::uint32_t> words_;
};

}  // namespace ipoib::link::cache
