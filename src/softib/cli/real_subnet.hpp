// A real subnet, from the output of ibnetdiscover and perfquery, in the form of softib show --json.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/topology/topology.hpp"

namespace softib::cli {

struct RealSubnet {
  /// "source" is "ibnetdiscover"; only members that these programs tell, and in "counters" those of
  /// perfquery by its names.
  boost::json::object subnet;
  topology::Topology topology;
};

/// `counters` are outputs of `perfquery` or `perfquery -x`, one behind another, or empty: of each
/// port the last counts. `name` is that of the file, for errors. Fails as topology::parse_net().
[[nodiscard]] ipoib::Result<RealSubnet> real_subnet(std::string_view ibnetdiscover,
                                                    const std::string& name,
                                                    std::string_view counters);

}  // namespace softib::cli
