// A hash table with a fixed maximum size, for entries that contain their key.
//
// Why: std::unordered_map allocates a node for each entry and follows pointers in each look-up; and
// who chooses the keys of a table must not be able to make its look-ups slow. Here the entries lie
// in a Slab, and never move. Two arrays lead to them:
// - Hints lead to almost all entries, by a cheap hash that everybody can compute. So a look-up
//   usually reads one cache line of the hints and the entry.
// - The index has all entries, by a keyed hash; a search of it takes a bounded number of steps.
// Cost: 11 to 16 bytes for each possible entry, allocated at once, so it never rehashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "ipoib/keyed_hash.hpp"
#include "link/cache/hints.hpp"
#include "link/cache/index.hpp"
#include "link/cache/slab.hpp"

namespace ipoib::link::cache {

/// `key_of` is the method of an entry that returns its key, which must not change.
template <class Entry, auto key_of>
class EntryTable {
 public:
  using Key = std::remove_cvref_t<std::invoke_result_t<decltype(key_of), const Entry&>>;

  EntryTable(std::size_t limit, const HashKey& key)
      : limit_(limit), hash_(key), hints_(limit), index_(limit), entries_(limit) {}
  ~EntryTable() {
    for_each([this](Entry& entry) { erase(entry); });
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Entry* find(const Key& key) const {
    Entry* const hinted = guess(hint_of(key));
    return hinted != nullptr && std::invoke(key_of, *hinted) == key ? hinted : search(key);
  }
  using Hint = Hints::Probe;
  [[nodiscard]] Hint hint_of(const Key& key) const {
    return hints_.probe_of(std::hash<Key>{}(key));
  }
  void prefetch(const Hint& hint) const { hints_.prefetch(hint); }
  /// The entry that the hint leads to, without reading it; null if there is none. It may have
  /// another key.
  [[nodiscard]] Entry* guess(const Hint& hint) const {
    const auto slot = hints_.find(hint);
    return slot ? &entries_[*slot] : nullptr;
  }
  /// Inserts an entry, whose key is not in the table yet. Returns null if the table is full, or the
  /// buckets of the key in the index are.
  template <class... Arguments>
  [[nodiscard]] Entry* emplace(const Key& key, Arguments&&... arguments) {
    if (size_ >= limit_) return nullptr;
    const std::uint32_t slot = entries_.next_slot();
    if (!index_.insert(hash_(key), slot)) return nullptr;
    (void)entries_.make(std::forward<Arguments>(arguments)...);
    hints_.insert(hint_of(key), slot);
    ++size_;
    return &entries_[slot];
  }
  void erase(Entry& entry) {
    const Key& key = std::invoke(key_of, entry);
    const std::uint32_t slot = entries_.slot_of(entry);
    hints_.erase(hint_of(key), slot);
    index_.erase(hash_(key), slot);
    --size_;
    entries_.destroy(slot);
  }
  /// Visits the entries of which one has to be erased if emplace() fails although the table is not
  /// full.
  void for_each_rival(const Key& key, auto&& visit) const {
    index_.for_each_rival(hash_(key), [&](std::uint32_t slot) { visit(entries_[slot]); });
  }
  /// `visit` may erase the entry that it is called with.
  void for_each(auto&& visit) {
    std::uint32_t slot = 0;
    while (Entry* const entry = next(slot)) visit(*entry);
  }
  [[nodiscard]] Entry* next(std::uint32_t& slot) const { return entries_.next(slot); }
  /// The cost of the look-ups that have searched the index; see Index::probes().
  [[nodiscard]] std::uint64_t probes() const { return index_.probes(); }

 private:
  /// Not inlined, to keep find() short.
  [[nodiscard, gnu::noinline]] Entry* search(const Key& key) const {
    Entry* found = nullptr;
    index_.find(hash_(key), [&](std::uint32_t slot) {
      Entry& entry = entries_[slot];
      if (std::invoke(key_of, entry) != key) return false;
      hints_.insert(hint_of(key), slot);
      found = &entry;
      return true;
    });
    return found;
  }

  std::size_t limit_;
  KeyedHash hash_;
  mutable Hints hints_;
  Index index_;
  Slab<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace ipoib::link::cache
