// The state of a subnet as JSON, as `softib show --json` prints it.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/subnet/subnet.hpp"

namespace softib::subnetd {

/// The whole state, as the subnet process knows it.
[[nodiscard]] boost::json::object subnet_json(const subnet::Subnet& subnet,
                                              const fabric::Fabric& fabric,
                                              const fabric::SubnetFolder& folder);
/// The state in the fabric file alone, while no subnet process is running: nodes with counters and
/// processes, and the receivers of each group.
[[nodiscard]] boost::json::object subnet_json(const fabric::Fabric& fabric,
                                              const fabric::SubnetFolder& folder);

}  // namespace softib::subnetd
