// The neighbours of the packets of a batch, looked up ahead of each packet's turn.
//
// A packet needs four lines of memory, of which each leads to the next: a word of the index, the
// entry, its path, the path's address handle. With very many neighbours none of them is in the
// processor's caches. So they are fetched for packets that come later, each line some packets after
// the one that leads to it, while others are sent: software pipelining (Chen, Ailamaki, Gibbons and
// Mowry, "Improving Hash Join Performance through Prefetching", 2004, section 5).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "link/neighbour_table.hpp"

namespace ipoib::link {

class LookAhead {
 public:
  /// What of a neighbour is needed.
  enum class Depth : std::size_t { path = 3, address_handle };
  /// The bound of distance().
  static constexpr std::size_t kMaxDistance = 16;

  LookAhead(const NeighbourTable& table, std::size_t packets, Depth depth)
      : table_(table),
        depth_(depth),
        step_(table.is_large() ? std::min(packets, kStep) : 0),
        erasures_(table.erasures()) {}

  /// So many turns after its announcement comes a packet's own. None in a small table, which stays
  /// in the caches by itself.
  [[nodiscard]] std::size_t distance() const { return static_cast<std::size_t>(depth_) * step_; }

  /// Announces a packet by the address of its neighbour; null: it has none, or there are no more
  /// packets. Returns the entry, as far as it is known, of that packet whose turn it is.
  [[nodiscard]] Neighbour* turn(const IpAddress* address) {
    if (table_.erasures() != erasures_) forget();
    Neighbour* const known = before(distance()).entry;
    Place& next = before(0);
    next.entry = nullptr;
    next.is_set = address != nullptr;
    if (next.is_set) table_.prefetch(next.probe = table_.probe_of(*address));
    if (Place& place = before(step_); place.is_set) {
      place.entry = table_.guess(place.probe);
      if (place.entry != nullptr) place.entry->prefetch();
    }
    if (const Path* const path = path_of(before(2 * step_))) path->prefetch();
    if (depth_ == Depth::address_handle) {
      if (const Path* const path = path_of(before(3 * step_))) path->prefetch_handle();
    }
    ++turn_;
    return known;
  }

 private:
  static constexpr std::size_t kStep =
      kMaxDistance / static_cast<std::size_t>(Depth::address_handle);
  static constexpr std::size_t kPlaces = 2 * kMaxDistance;

  struct Place {
    NeighbourTable::Probe probe;
    Neighbour* entry = nullptr;
    bool is_set = false;
  };
  [[nodiscard]] Place& before(std::size_t turns) { return places_[(turn_ - turns) % kPlaces]; }
  [[nodiscard]] static const Path* path_of(const Place& place) {
    return place.entry == nullptr ? nullptr : place.entry->sending_path();
  }
  /// Any of them may be gone.
  void forget() {
    for (Place& place : places_) place.entry = nullptr;
    erasures_ = table_.erasures();
  }

  const NeighbourTable& table_;
  Depth depth_;
  std::size_t step_;
  std::uint64_t erasures_;
  std::size_t turn_ = 0;
  std::array<Place, kPlaces> places_;
};

}  // namespace ipoib::link
