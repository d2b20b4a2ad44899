// Pictures of a topology.
#pragma once

#include <string>
#include <string_view>

#include "softib/topology/topology.hpp"

namespace softib::topology {

/// An undirected graph in the language of Graphviz: a node for each switch and HCA, switches of
/// one level in one row, and an edge for each cable with its ports.
[[nodiscard]] std::string write_dot(const Topology& topology, std::string_view title);

/// A picture that needs nothing else: rows by level, or a circle (layout.hpp). Cables between the
/// same two nodes are one line with their number. Each node and line has a title with its ports
/// and rates. The colours follow the reader's choice of light or dark.
[[nodiscard]] std::string write_svg(const Topology& topology, std::string_view title);

}  // namespace softib::topology
