// GUIDs of nodes for which the topology has none.
#pragma once

#include <cstdint>
#include <string_view>

#include "softib/topology/topology.hpp"

namespace softib::topology {

/// The GUID of a node by its name: a locally administered EUI-64 whose low four bits are 0, for the
/// numbers of its ports.
[[nodiscard]] Guid derived_guid(std::string_view name, std::uint64_t seed);

/// Returns the topology with all GUIDs: those that are 0 are derived from the seed and the name of
/// the node, as `softib subnet` derives them (locally administered EUI-64s, the low four bits 0),
/// and differ from all others. A port of an HCA without GUID gets the node's plus its number.
[[nodiscard]] Topology with_guids(Topology topology, std::uint64_t seed);

}  // namespace softib::topology
