// GUIDs of nodes for which the topology has none.
#pragma once

#include <cstdint>

#include "softib/topology/topology.hpp"

namespace softib::topology {

/// Returns the topology with all GUIDs: those that are 0 are derived from the seed and the name of
/// the node, as `softib subnet` derives them (locally administered EUI-64s, the low four bits 0),
/// and differ from all others. A port of an HCA without GUID gets the node's plus its number.
[[nodiscard]] Topology with_guids(Topology topology, std::uint64_t seed);

}  // namespace softib::topology
