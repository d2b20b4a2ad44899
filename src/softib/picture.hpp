// A subnet as JSON: what `softib show` prints, and tests look at.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "softib/core/subnet.hpp"
#include "softib/fabric.hpp"
#include "softib/folder.hpp"

namespace softib {

/// Of a living subnet process: all there is.
[[nodiscard]] boost::json::object picture(const Subnet& subnet, const Fabric& fabric,
                                          const SubnetFolder& folder);
/// Of what everybody forwards by when there is no subnet process: nodes with their counters and
/// processes, and who gets the packets of which group.
[[nodiscard]] boost::json::object picture(const Fabric& fabric, const SubnetFolder& folder);

}  // namespace softib
