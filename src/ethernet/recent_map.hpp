// A map of limited size that forgets roughly the entries that have not been used for the longest
// time. There are two generations, each of half the limit. An entry that is used moves to the
// younger one. When that is full, it becomes the older one, and the entries of the older one are
// forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "ipoib/keyed_hash.hpp"

namespace ipoib::ethernet {

template <class Key, class Value>
class RecentMap {
 public:
  /// A map of at most `limit` entries, which is at least 2. The hash key is for tables whose keys
  /// strangers choose.
  RecentMap(std::size_t limit, const HashKey& key)
      : half_(std::max<std::size_t>(limit / 2, 1)), hash_(key), young_(0, hash_), old_(0, hash_) {}

  /// Uses an entry; null if there is none. The result is valid until the next call.
  [[nodiscard]] Value* find(const Key& key) {
    if (const auto at = young_.find(key); at != young_.end()) return &at->second;
    auto node = old_.extract(key);
    if (node.empty()) return nullptr;
    make_room();
    return &young_.insert(std::move(node)).position->second;
  }
  /// Finds an entry like find(), without using it.
  [[nodiscard]] const Value* peek(const Key& key) const {
    if (const auto at = young_.find(key); at != young_.end()) return &at->second;
    const auto at = old_.find(key);
    return at != old_.end() ? &at->second : nullptr;
  }
  /// Adds an entry or replaces its value, which counts as a use.
  void set(const Key& key, const Value& value) {
    if (Value* const known = find(key)) {
      *known = value;
      return;
    }
    make_room();
    young_.emplace(key, value);
  }
  void erase(const Key& key) {
    young_.erase(key);
    old_.erase(key);
  }
  /// Calls visit(key) for at most `limit` entries, the recently used ones first.
  template <class Visit>
  void visit_recent(std::size_t limit, Visit visit) const {
    for (const Map* const each : {&young_, &old_}) {
      for (const auto& [key, value] : *each) {
        if (limit == 0) return;
        --limit;
        visit(key);
      }
    }
  }
  [[nodiscard]] std::size_t size() const { return young_.size() + old_.size(); }

 private:
  using Map = std::unordered_map<Key, Value, KeyedHash>;

  void make_room() {
    if (young_.size() < half_) return;
    old_ = std::move(young_);
    young_ = Map(0, hash_);
  }

  std::size_t half_;
  KeyedHash hash_;
  Map young_;
  Map old_;
};

}  // namespace ipoib::ethernet
