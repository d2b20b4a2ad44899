// Looks up the entries of a batch of packets in advance, by software prefetching.
//
// Why: a packet reads four cache lines, each of which holds the address of the next: a hint of the
// table, the neighbour, its path, the path's address handle. With thousands of neighbours each read
// misses the caches. LookAhead issues each prefetch some packets after the one that it depends on,
// while other packets are processed (Chen, Ailamaki, Gibbons and Mowry, "Improving Hash Join
// Performance through Prefetching", 2004, section 5).
// Cost: a few nanoseconds for each packet, so small tables, which stay in the caches, are not
// looked up in advance (distance() is 0).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ipoib::link::cache {

/// `Table` is a NeighbourTable; this folder knows only what it calls here.
template <class Table>
class LookAhead {
 public:
  using Entry = typename Table::Entry;
  using Key = typename Table::Key;
  /// The last object to prefetch.
  enum class Depth : std::size_t { path = 3, address_handle };
  /// Upper bound of distance().
  static constexpr std::size_t kMaxDistance = 16;

  LookAhead(const Table& table, std::size_t packets, Depth depth)
      : table_(table),
        depth_(depth),
        step_(table.is_large() ? std::min(packets, kStep) : 0),
        erasures_(table.erasures()) {}

  /// The number of turns from the announcement of a packet to its processing; 0 for a small table.
  [[nodiscard]] std::size_t distance() const { return static_cast<std::size_t>(depth_) * step_; }

  /// Announces the next packet by the key of its entry, which is null if it has none or there are
  /// no more packets. Returns the entry of the packet that was announced distance() turns ago, or
  /// null if it is not known.
  [[nodiscard]] Entry* turn(const Key* key) {
    if (table_.erasures() != erasures_) forget();
    Entry* const known = before(distance()).entry;
    Stage& next = before(0);
    next.entry = nullptr;
    next.is_set = key != nullptr;
    if (next.is_set) table_.prefetch(next.hint = table_.hint_of(*key));
    if (Stage& stage = before(step_); stage.is_set) {
      stage.entry = table_.guess(stage.hint);
      if (stage.entry != nullptr) stage.entry->prefetch();
    }
    if (const auto* const path = path_of(before(2 * step_))) path->prefetch();
    if (depth_ == Depth::address_handle) {
      if (const auto* const path = path_of(before(3 * step_))) path->prefetch_handle();
    }
    ++turn_;
    return known;
  }

 private:
  static constexpr std::size_t kStep =
      kMaxDistance / static_cast<std::size_t>(Depth::address_handle);
  static constexpr std::size_t kStages = 2 * kMaxDistance;

  /// A packet between its announcement and its turn.
  struct Stage {
    typename Table::Hint hint;
    Entry* entry = nullptr;
    bool is_set = false;
  };
  [[nodiscard]] Stage& before(std::size_t turns) { return stages_[(turn_ - turns) % kStages]; }
  [[nodiscard]] static auto path_of(const Stage& stage) {
    return stage.entry == nullptr ? nullptr : stage.entry->sending_path();
  }
  /// Drops all pointers, since an entry has been erased.
  void forget() {
    for (Stage& stage : stages_) stage.entry = nullptr;
    erasures_ = table_.erasures();
  }

  const Table& table_;
  Depth depth_;
  std::size_t step_;
  std::uint64_t erasures_;
  std::size_t turn_ = 0;
  std::array<Stage, kStages> stages_;
};

}  // namespace ipoib::link::cache
