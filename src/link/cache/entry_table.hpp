// A hash table with a fixed maximum size, for entries that contain their key.
//
// Why: std::unordered_map allocates a node for each entry and follows pointers in each look-up; and
// who chooses the keys of a table must not be able to make its look-ups slow. Here the entries lie
// in a Slab, and never move. Two arrays lead to them:
// - A hint is a slot number. Each key has one place for a hint, by a cheap hash that everybody can
//   compute. It usually leads to the entry: a look-up then reads one word and the entry. Of the keys
//   that share a place, the one that was found last has the hint.
// - The index has all entries, by a keyed hash; a search of it takes a bounded number of steps.
// Cost: 11 to 16 bytes for each possible entry, allocated at once, so it never rehashes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ipoib/keyed_hash.hpp"
#include "link/cache/index.hpp"
#include "link/cache/slab.hpp"

namespace ipoib::link::cache {

/// `key_of` is the method of an entry that returns its key, which must not change.
template <class Entry, auto key_of>
class EntryTable {
 public:
  using Key = std::remove_cvref_t<std::invoke_result_t<decltype(key_of), const Entry&>>;

  EntryTable(std::size_t limit, const HashKey& key)
      : limit_(limit),
        hash_(key),
        hints_(std::bit_ceil(limit * 8 / 7 + 1)),
        index_(limit),
        entries_(limit) {}
  ~EntryTable() {
    for_each([this](Entry& entry) { erase(entry); });
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Entry* find(const Key& key) const {
    Entry* const hinted = guess(place_of(key));
    return hinted != nullptr && std::invoke(key_of, *hinted) == key ? hinted : search(key);
  }
  /// The place of a key's hint. Multiplication mixes best into the top bits.
  [[nodiscard]] std::size_t place_of(const Key& key) const {
    const std::uint64_t hash = std::hash<Key>{}(key)*0x9e3779b97f4a7c15ULL;
    return static_cast<std::size_t>(hash >> std::countl_zero(std::uint64_t{hints_.size() - 1}));
  }
  void prefetch(std::size_t place) const { __builtin_prefetch(&hints_[place]); }
  /// The entry that the hint leads to, without reading it; null if there is no hint. It may be that
  /// of another key.
  [[nodiscard]] Entry* guess(std::size_t place) const {
    const std::uint32_t hint = hints_[place];
    return hint != kNoHint ? &entries_[hint - 1] : nullptr;
  }
  /// Inserts an entry, whose key is not in the table yet. Null if the table is full, or the place of
  /// the key in the index is.
  template <class... Arguments>
  [[nodiscard]] Entry* emplace(const Key& key, Arguments&&... arguments) {
    if (size_ >= limit_) return nullptr;
    const std::uint32_t slot = entries_.next_slot();
    if (!index_.insert(hash_(key), slot)) return nullptr;
    (void)entries_.make(std::forward<Arguments>(arguments)...);
    hints_[place_of(key)] = slot + 1;
    ++size_;
    return &entries_[slot];
  }
  void erase(Entry& entry) {
    const Key& key = std::invoke(key_of, entry);
    const std::uint32_t slot = entries_.slot_of(entry);
    if (std::uint32_t& hint = hints_[place_of(key)]; hint == slot + 1) hint = kNoHint;
    index_.erase(hash_(key), slot);
    --size_;
    entries_.destroy(slot);
  }
  /// The entries of which one has to go if emplace() fails, but the table is not full.
  void for_each_rival(const Key& key, auto&& visit) const {
    index_.for_each_rival(hash_(key), [&](std::uint32_t slot) { visit(entries_[slot]); });
  }
  /// `visit` may erase the entry that it is called with.
  void for_each(auto&& visit) {
    std::uint32_t slot = 0;
    while (Entry* const entry = next(slot)) visit(*entry);
  }
  [[nodiscard]] Entry* next(std::uint32_t& slot) const { return entries_.next(slot); }
  /// The cost of the look-ups that have searched the index, as there.
  [[nodiscard]] std::uint64_t probes() const { return index_.probes(); }

 private:
  static constexpr std::uint32_t kNoHint = 0;  ///< any other hint is the slot + 1

  /// Not inlined, to keep find() short.
  [[nodiscard, gnu::noinline]] Entry* search(const Key& key) const {
    Entry* found = nullptr;
    index_.find(hash_(key), [&](std::uint32_t slot) {
      Entry& entry = entries_[slot];
      if (std::invoke(key_of, entry) != key) return false;
      hints_[place_of(key)] = slot + 1;
      found = &entry;
      return true;
    });
    return found;
  }

  std::size_t limit_;
  KeyedHash hash_;
  mutable std::vector<std::uint32_t> hints_;
  Index index_;
  Slab<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace ipoib::link::cache
