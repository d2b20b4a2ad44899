// Metrics of a subnet.
#pragma once

#include <boost/json/object.hpp>

#include "metrics/families.hpp"

namespace softib::cli {

/// Makes metrics from the JSON of `softib show`. Values that are not in it, because the subnet
/// process does not run or another SM manages the subnet, are missing.
[[nodiscard]] ipoib::metrics::Families subnet_metrics(const boost::json::object& subnet);

}  // namespace softib::cli
