// A topology as JSON, and what there is to say of it as text.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "softib/topology/net_file.hpp"
#include "softib/topology/net_writer.hpp"

namespace softib::cli {

/// The output of `softib topology --format json` (docs/json/softib-topology.json).
[[nodiscard]] boost::json::object topology_json(const topology::NetFile& file);

/// The formats of topologies, as options name them.
inline constexpr std::array<std::string_view, 6> kTopologyFormats{"summary", "net", "ibnetdiscover",
                                                                  "dot",     "svg", "json"};

/// "unknown format 'x'", and those that there are.
[[nodiscard]] std::string unknown_topology_format(const std::string& format);

/// A topology in one of these formats.
[[nodiscard]] std::string topology_text(std::string_view format, const topology::NetFile& file,
                                        const topology::Lids& lids, const std::string& title);

/// A subnet as a topology with LIDs.
struct SubnetTopology {
  topology::NetFile file;
  topology::Lids lids;
};
/// Makes it of the answer to `show` of a running subnet. The cables of nodes without a numbered
/// port of a switch are left out.
[[nodiscard]] SubnetTopology topology_of(const boost::json::object& subnet);

/// The output of `softib topology --format summary`: counts, rates, levels, diameter.
[[nodiscard]] std::string topology_summary(const topology::Topology& topology);

}  // namespace softib::cli
