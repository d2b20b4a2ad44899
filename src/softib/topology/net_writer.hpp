// Writes topologies in the formats of ibsim and of ibnetdiscover.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "softib/topology/topology.hpp"

namespace softib::topology {

/// The comment by which parse_net() knows that node IDs are names, whatever they look like.
inline constexpr std::string_view kIdsAreNames = "# softib: node IDs are names";

/// A net file of ibsim. parse_net() makes the same topology of it, in canonical form, if check()
/// accepts the topology; only port GUIDs of ports without cable are not written. A GUID of 0 is
/// written only behind others of its kind (ibsim accepts one node with it).
[[nodiscard]] std::string write_net(const Topology& topology);

/// LIDs by the index of the node; 0, or no element, is no LID.
struct Lids {
  std::vector<Lid> switches;
  std::vector<std::array<Lid, kMaxHcaPorts>> hcas;
  std::uint8_t lmc = 0;  ///< of HCA ports
};

/// What ibnetdiscover prints of such a subnet, but for vendor and device IDs, which are 0. The
/// topology needs all GUIDs (with_guids()).
[[nodiscard]] std::string write_ibnetdiscover(const Topology& topology, const Lids& lids);

/// The width and speed as ibnetdiscover writes them, such as 4xQDR.
[[nodiscard]] std::string rate_text(const Cable& cable);

}  // namespace softib::topology
