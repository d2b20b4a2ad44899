// Processes a batch of packets while the neighbours of the following packets are prefetched.
#pragma once

#include <array>
#include <cstddef>

#include "link/neighbour_table.hpp"

namespace ipoib::link {

/// For each packet calls `prepare(index, plan)` and, LookAhead::distance() packets later,
/// `process(index, plan, entry)`. prepare() fills the plan and returns the address of the packet's
/// neighbour, in the plan, or null if it has none. `entry` is the entry of that neighbour, or null
/// if it is unknown.
template <class Plan, class Prepare, class Process>
void for_each_pipelined(const NeighbourTable& neighbours, std::size_t packets,
                        LookAhead::Depth depth, Prepare&& prepare, Process&& process) {
  LookAhead ahead(neighbours, packets, depth);
  const std::size_t distance = ahead.distance();
  std::array<Plan, 2 * LookAhead::kMaxDistance> plans;
  for (std::size_t turn = 0; turn < packets + distance; ++turn) {
    const IpAddress* next = nullptr;
    if (turn < packets) next = prepare(turn, plans[turn % plans.size()]);
    Neighbour* const entry = distance > 0 ? ahead.turn(next) : nullptr;
    if (turn < distance) continue;
    const std::size_t index = turn - distance;
    process(index, plans[index % plans.size()], entry);
  }
}

}  // namespace ipoib::link
