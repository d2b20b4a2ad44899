// A subnet as JSON: what `softib show` prints, and tests look at.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/subnet/subnet.hpp"

namespace softib::subnetd {

/// Of a living subnet process: all there is.
[[nodiscard]] boost::json::object picture(const subnet::Subnet& subnet,
                                          const fabric::Fabric& fabric,
                                          const fabric::SubnetFolder& folder);
/// Of what everybody forwards by when there is no subnet process: nodes with their counters and
/// processes, and who gets the packets of which group.
[[nodiscard]] boost::json::object picture(const fabric::Fabric& fabric,
                                          const fabric::SubnetFolder& folder);

}  // namespace softib::subnetd
