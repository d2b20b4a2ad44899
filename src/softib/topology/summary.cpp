#include "softib/topology/summary.hpp"

#include <algorithm>
#include <limits>

#include "softib/topology/net_writer.hpp"

namespace softib::topology {

namespace {

constexpr unsigned kFar = std::numeric_limits<unsigned>::max();

/// Distances in cables from the nearest of `from`; kFar where there is no path.
std::vector<unsigned> distances(const SwitchGraph& graph, std::vector<std::uint16_t> from) {
  std::vector<unsigned> out(graph.size(), kFar);
  for (const auto each : from) out[each] = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto at = from[i];
    for (const auto next : graph[at]) {
      if (out[next] != kFar) continue;
      out[next] = out[at] + 1;
      from.push_back(next);
    }
  }
  return out;
}

/// The number of HCA cables of each switch.
std::vector<unsigned> hca_cables(const Topology& topology) {
  std::vector<unsigned> out(topology.switches.size());
  for (const auto& cable : topology.cables) {
    if (cable.a.is_switch == cable.b.is_switch) continue;
    ++out[cable.a.is_switch ? cable.a.index : cable.b.index];
  }
  return out;
}

std::vector<std::uint16_t> switches_with(const std::vector<unsigned>& cables) {
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < cables.size(); ++i) {
    if (cables[i] > 0) out.push_back(static_cast<std::uint16_t>(i));
  }
  return out;
}

std::size_t count_parts(const SwitchGraph& graph) {
  std::size_t parts = 0;
  std::vector<bool> seen(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (seen[i]) continue;
    ++parts;
    const auto reached = distances(graph, {static_cast<std::uint16_t>(i)});
    for (std::size_t j = 0; j < reached.size(); ++j) {
      if (reached[j] != kFar) seen[j] = true;
    }
  }
  return parts;
}

/// The longest path has two more cables than its switches are apart.
std::optional<unsigned> find_diameter(const Topology& topology, const SwitchGraph& graph) {
  const auto cables = hca_cables(topology);
  const auto edges = switches_with(cables);
  std::optional<unsigned> out;
  for (const auto edge : edges) {
    const auto reached = distances(graph, {edge});
    for (const auto other : edges) {
      if (reached[other] == kFar || (other == edge && cables[edge] < 2)) continue;
      out = std::max(out.value_or(0), reached[other] + 2);
    }
  }
  for (const auto& cable : topology.cables) {
    if (!cable.a.is_switch && !cable.b.is_switch) out = std::max(out.value_or(0), 1U);
  }
  return out;
}

std::vector<Level> count_levels(const Topology& topology, const std::vector<unsigned>& levels) {
  const unsigned highest = levels.empty() ? 0 : *std::ranges::max_element(levels);
  std::vector<Level> out(highest);
  for (const unsigned level : levels) {
    if (level > 0) ++out[level - 1].switches;
  }
  for (const auto& cable : topology.cables) {
    const unsigned a = cable.a.is_switch ? levels[cable.a.index] : 0;
    const unsigned b = cable.b.is_switch ? levels[cable.b.index] : 0;
    if (a == 0 && b == 0) continue;  // of HCAs, or without one
    if (a == b) {
      ++out[a - 1].cables_within;
      continue;
    }
    ++out[std::max(a, b) - 1].cables_down;
    if (std::min(a, b) > 0) ++out[std::min(a, b) - 1].cables_up;
  }
  return out;
}

}  // namespace

SwitchGraph switch_graph(const Topology& topology) {
  SwitchGraph out(topology.switches.size());
  for (const auto& cable : topology.cables) {
    if (!cable.a.is_switch || !cable.b.is_switch || cable.a.index == cable.b.index) continue;
    out[cable.a.index].push_back(cable.b.index);
    out[cable.b.index].push_back(cable.a.index);
  }
  for (auto& neighbours : out) {
    std::ranges::sort(neighbours);
    const auto repeated = std::ranges::unique(neighbours);
    neighbours.erase(repeated.begin(), repeated.end());
  }
  return out;
}

std::vector<unsigned> switch_levels(const Topology& topology, const SwitchGraph& graph) {
  auto out = distances(graph, switches_with(hca_cables(topology)));
  for (unsigned& level : out) level = level == kFar ? 0 : level + 1;
  return out;
}

Summary summarize(const Topology& topology) {
  Summary out;
  out.switches = topology.switches.size();
  out.hcas = topology.hcas.size();
  out.cables = topology.cables.size();
  std::vector<bool> is_connected(out.hcas);
  for (const auto& cable : topology.cables) {
    ++out.rates[rate_text(cable)];
    for (const auto& end : {cable.a, cable.b}) {
      if (!end.is_switch) is_connected[end.index] = true;
    }
  }
  out.unconnected_hcas = static_cast<std::size_t>(std::ranges::count(is_connected, false));
  const auto graph = switch_graph(topology);
  out.parts = count_parts(graph);
  out.levels = count_levels(topology, switch_levels(topology, graph));
  out.diameter = find_diameter(topology, graph);
  return out;
}

}  // namespace softib::topology
