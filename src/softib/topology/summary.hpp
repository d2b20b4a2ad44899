// What can be counted in a topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "softib/topology/topology.hpp"

namespace softib::topology {

/// The switches that each switch has cables to, without repetitions, by index.
using SwitchGraph = std::vector<std::vector<std::uint16_t>>;
[[nodiscard]] SwitchGraph switch_graph(const Topology& topology);

/// The level of each switch: 1 with an HCA, else one more than the lowest level of its neighbours;
/// 0 if no HCA can be reached.
[[nodiscard]] std::vector<unsigned> switch_levels(const Topology& topology,
                                                  const SwitchGraph& graph);

struct Level {
  std::size_t switches = 0;
  std::size_t cables_down = 0;  ///< to the level below; of level 1, to HCAs
  std::size_t cables_up = 0;
  std::size_t cables_within = 0;  ///< between its switches
  friend bool operator==(const Level&, const Level&) = default;
};

struct Summary {
  std::size_t switches = 0;
  std::size_t hcas = 0;
  std::size_t cables = 0;
  std::size_t unconnected_hcas = 0;  ///< without a cable
  /// Sets of switches that are connected to each other, but to no switch of another set. HCAs do
  /// not forward, so one with two ports joins no two sets.
  std::size_t parts = 0;
  std::vector<Level> levels;  ///< level 1 first
  /// Cables on the longest of the shortest paths between two HCAs of a part. nullopt if no two HCAs
  /// are connected.
  std::optional<unsigned> diameter;
  std::map<std::string, std::size_t> rates;  ///< cables by their rate_text(), such as 4xQDR
};

/// `topology` is valid (check()). The work is switches times cables between switches.
[[nodiscard]] Summary summarize(const Topology& topology);

}  // namespace softib::topology
