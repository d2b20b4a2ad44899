// Prints a list of subnets.
#pragma once

#include <boost/json/array.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "softib/cli/known_subnets.hpp"
#include "table/table.hpp"

namespace softib::cli {

/// A duration in brief: "35s", "12m", "5h", "3d".
[[nodiscard]] std::string duration_text(std::uint64_t seconds);
/// A table without the numbers of processes. If there are no subnets, it has only its headings.
[[nodiscard]] std::string list_table(const std::vector<KnownSubnet>& subnets,
                                     std::size_t width = ipoib::table::kUnlimited);
/// `pid` and `uptime` are null if the subnet's process does not run; `uptime` is in seconds.
[[nodiscard]] boost::json::array list_json(const std::vector<KnownSubnet>& subnets);

}  // namespace softib::cli
