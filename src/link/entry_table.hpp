// Entries by key, as many as a limit says: made, found and erased in constant time.
//
// Entries stay in their places. The index is an array of places with open addressing (Knuth, TAOCP
// 3, 6.4, algorithms L and R), made for the limit at once, so it never grows. A word of it has bits
// of the key's hash besides the place, so a look-up reads one entry, the one that it finds.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "link/places.hpp"

namespace ipoib::link {

/// `key_of` is the method of an entry that returns its key, which never changes.
template <class Entry, auto key_of>
class EntryTable {
 public:
  using Key = std::remove_cvref_t<std::invoke_result_t<decltype(key_of), const Entry&>>;

  explicit EntryTable(std::size_t limit) : index_(words(limit)), entries_(limit) {}
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
  /// Where in the index a search begins, and what for.
  struct Probe {
    std::size_t at;
    std::uint32_t tag;
  };
  /// Multiplication leaves the best bits at the top: the place in the index, and below it the tag.
  [[nodiscard]] Probe probe_of(const Key& key) const {
    const std::uint64_t hash = std::hash<Key>{}(key)*0x9e3779b97f4a7c15ULL;
    return {static_cast<std::size_t>(hash >> std::countl_zero(std::uint64_t{mask()})),
            static_cast<std::uint32_t>(hash >> 10) & kTagMask};
  }
  /// Has the processor fetch what guess() reads.
  void prefetch(const Probe& probe) const { __builtin_prefetch(&index_[probe.at]); }
  /// Where the entry probably is, without a look at it; null: there is none.
  [[nodiscard]] Entry* guess(const Probe& probe) const {
    // No branch for each step: how many there are is chance, which no processor predicts.
    std::uint32_t found = kEmpty;
    for (std::size_t i = kNear; i-- > 0;) {
      const std::uint32_t word = index_[(probe.at + i) & mask()];
      found = (word & kTagMask) == probe.tag ? word : found;
    }
    if (found != kEmpty) return &entry_of(found);
    return first_match(probe, [](const Entry&) { return true; });
  }
  /// The key is a new one, and there are fewer than the limit says.
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
    const std::uint32_t word = index_[gap];
    for (std::size_t at = after(gap); index_[at] != kEmpty; at = after(at)) {
      const std::size_t home = probe_of(std::invoke(key_of, entry_of(index_[at]))).at;
      // It moves into the gap unless that is before its home.
      if (((at - home) & mask()) >= ((at - gap) & mask())) {
        index_[std::exchange(gap, at)] = index_[at];
      }
    }
    index_[gap] = kEmpty, --size_;
    entries_.destroy((word & kPlaceMask) - 1);
  }
  template <class Visit>  ///< of an entry, which it may erase
  void for_each(Visit&& visit) {
    std::uint32_t place = 0;
    while (Entry* const entry = next(place)) visit(*entry);
  }
  [[nodiscard]] Entry* next(std::uint32_t& place) const { return entries_.next(place); }

 private:
  static constexpr std::uint32_t kEmpty = 0;  ///< else a word is tag, and place + 1
  static constexpr std::uint32_t kPlaceMask = (1U << 21) - 1;
  static constexpr std::uint32_t kTagMask = ~kPlaceMask;
  static constexpr std::size_t kNear = 4;  ///< words that are looked at in any case
  template <class Matches>
  [[nodiscard]] Entry* first_match(const Probe& probe, const Matches& matches) const {
    for (std::size_t at = probe.at; index_[at] != kEmpty; at = after(at)) {
      if ((index_[at] & kTagMask) != probe.tag) continue;
      if (Entry& entry = entry_of(index_[at]); matches(entry)) return &entry;
    }
    return nullptr;
  }
  [[nodiscard]] static constexpr std::size_t words(std::size_t limit) {
    return std::bit_ceil(limit * 8 / 7 + 1);  // at most seven of eight are in use
  }
  [[nodiscard]] std::size_t mask() const { return index_.size() - 1; }
  [[nodiscard]] std::size_t after(std::size_t at) const { return (at + 1) & mask(); }
  [[nodiscard]] Entry& entry_of(std::uint32_t word) const {
    return entries_[(word & kPlaceMask) - 1];
  }
  std::vector<std::uint32_t> index_;
  Places<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace ipoib::link
