// A topology as JSON, and what there is to say of it as text.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "softib/topology/net_file.hpp"

namespace softib::cli {

/// The output of `softib topology --format json` (docs/json/softib-topology.json).
[[nodiscard]] boost::json::object topology_json(const topology::NetFile& file);

/// The output of `softib topology --format summary`: counts, rates, levels, diameter.
[[nodiscard]] std::string topology_summary(const topology::Topology& topology);

}  // namespace softib::cli
