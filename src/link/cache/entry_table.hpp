// A hash table with a fixed maximum size, for entries that contain their key.
//
// Why: std::unordered_map allocates a node for each entry and follows pointers in each look-up.
// Here the entries lie in a Slab. The index is an array of words with linear probing (Knuth, TAOCP
// 3, 6.4, algorithms L and R). A word holds the slot and some bits of the key's hash, so a look-up
// usually reads one cache line of the index and one entry. Entries never move.
// Cost: 4 to 10 bytes of index for each possible entry, allocated at once, so it never rehashes.
// find(), emplace() and erase() take constant time on average.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "link/cache/slab.hpp"

namespace ipoib::link::cache {

/// `key_of` is the method of an entry that returns its key, which must not change.
template <class Entry, auto key_of>
class EntryTable {
 public:
  using Key = std::remove_cvref_t<std::invoke_result_t<decltype(key_of), const Entry&>>;

  /// The index is at most 7/8 full.
  explicit EntryTable(std::size_t limit)
      : index_(std::bit_ceil(limit * 8 / 7 + 1)), entries_(limit) {}
  ~EntryTable() {
    for_each([this](Entry& entry) { erase(entry); });
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Entry* find(const Key& key) const {
    const auto matches = [&](const Entry& entry) { return std::invoke(key_of, entry) == key; };
    const Probe probe = probe_of(key);
    Entry* const guessed = guess(probe);
    return guessed == nullptr || matches(*guessed) ? guessed : first_match(probe, matches);
  }
  /// The start of a search: the index word to begin at, and the hash bits to look for.
  struct Probe {
    std::size_t at;
    std::uint32_t tag;
  };
  /// Multiplication mixes best into the top bits: they select the word, those below are the tag.
  [[nodiscard]] Probe probe_of(const Key& key) const {
    const std::uint64_t hash = std::hash<Key>{}(key)*0x9e3779b97f4a7c15ULL;
    return {static_cast<std::size_t>(hash >> std::countl_zero(std::uint64_t{mask()})),
            static_cast<std::uint32_t>(hash >> 10) & kTagMask};
  }
  void prefetch(const Probe& probe) const { __builtin_prefetch(&index_[probe.at]); }
  /// The entry with the same tag, without reading the entry itself; null if there is certainly
  /// none.
  [[nodiscard]] Entry* guess(const Probe& probe) const {
    // Without a branch for each word: the number of steps is random, so it would be mispredicted.
    std::uint32_t found = kEmpty;
    for (std::size_t i = kNear; i-- > 0;) {
      const std::uint32_t word = index_[(probe.at + i) & mask()];
      found = (word & kTagMask) == probe.tag ? word : found;
    }
    if (found != kEmpty) return &entry_of(found);
    return first_match(probe, [](const Entry&) { return true; });
  }
  /// Requires that the key is not in the table, and that the table is not full.
  template <class... Arguments>
  Entry& emplace(const Key& key, Arguments&&... arguments) {
    assert(size_ * 8 < index_.size() * 7);
    const Probe probe = probe_of(key);
    std::size_t at = probe.at;
    while (index_[at] != kEmpty) at = after(at);
    index_[at] = probe.tag | (entries_.make(std::forward<Arguments>(arguments)...) + 1);
    ++size_;
    return entry_of(index_[at]);
  }
  void erase(Entry& entry) {
    std::size_t gap = probe_of(std::invoke(key_of, entry)).at;
    while (&entry_of(index_[gap]) != &entry) gap = after(gap);
    const std::uint32_t erased = index_[gap];
    for (std::size_t at = after(gap); index_[at] != kEmpty; at = after(at)) {
      const std::size_t home = probe_of(std::invoke(key_of, entry_of(index_[at]))).at;
      // Moves the word into the gap unless the gap lies before the word's home.
      if (((at - home) & mask()) >= ((at - gap) & mask())) {
        index_[std::exchange(gap, at)] = index_[at];
      }
    }
    index_[gap] = kEmpty, --size_;
    entries_.destroy(slot_of(erased));
  }
  /// `visit` may erase the entry that it is called with.
  void for_each(auto&& visit) {
    std::uint32_t slot = 0;
    while (Entry* const entry = next(slot)) visit(*entry);
  }
  [[nodiscard]] Entry* next(std::uint32_t& slot) const { return entries_.next(slot); }

 private:
  static constexpr std::uint32_t kEmpty = 0;  ///< any other word is tag | (slot + 1)
  static constexpr std::uint32_t kSlotMask = (1U << 21) - 1;
  static constexpr std::uint32_t kTagMask = ~kSlotMask;
  static constexpr std::size_t kNear = 4;  ///< words that guess() always reads
  [[nodiscard]] Entry* first_match(const Probe& probe, const auto& matches) const {
    for (std::size_t at = probe.at; index_[at] != kEmpty; at = after(at)) {
      if ((index_[at] & kTagMask) != probe.tag) continue;
      if (Entry& entry = entry_of(index_[at]); matches(entry)) return &entry;
    }
    return nullptr;
  }
  [[nodiscard]] static std::uint32_t slot_of(std::uint32_t word) { return (word & kSlotMask) - 1; }
  [[nodiscard]] std::size_t mask() const { return index_.size() - 1; }
  [[nodiscard]] std::size_t after(std::size_t at) const { return (at + 1) & mask(); }
  [[nodiscard]] Entry& entry_of(std::uint32_t word) const { return entries_[slot_of(word)]; }
  std::vector<std::uint32_t> index_;
  Slab<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace ipoib::link::cache
