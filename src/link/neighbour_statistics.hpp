// Figures about the neighbours of a link, for monitoring. They change with the state of an entry,
// never with a packet.
#pragma once

#include <array>
#include <cstddef>

#include "ipoib/duration_histogram.hpp"
#include "link/neighbour_info.hpp"

namespace ipoib::link {

struct NeighbourStatistics {
  /// The number of states: all but `pinned`, which is no state of an entry.
  static constexpr auto kStates = static_cast<std::size_t>(NeighbourState::pinned);

  [[nodiscard]] std::size_t& in(NeighbourState state) {
    return entries[static_cast<std::size_t>(state)];
  }

  std::array<std::size_t, kStates> entries{};  ///< by state
  /// How long packets of the host waited for the address of a neighbour and its path, from the
  /// first of them. Only successes are in it; drop_neighbour_failed and drop_path_failed count the
  /// rest.
  DurationHistogram resolution;
};

}  // namespace ipoib::link
