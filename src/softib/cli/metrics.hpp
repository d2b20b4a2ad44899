// Metrics of a subnet.
#pragma once

#include <boost/json/object.hpp>

#include "metrics/families.hpp"

namespace softib::cli {

/// From the JSON of `softib show`. What it does not have, because the subnet process does not run
/// or another SM manages the subnet, is missing.
[[nodiscard]] ipoib::metrics::Families subnet_metrics(const boost::json::object& subnet);

}  // namespace softib::cli
