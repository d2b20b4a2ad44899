// The output of `softib show --cm`: the IDs of the RDMA connection managers of all processes of a
// subnet, and the counters of their messages.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <string>

#include "softib/fabric/cm_table.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "table/table.hpp"

namespace softib::cli {

/// The state that a process has published. Nothing in the table is trusted: entries that are no IDs
/// are left out, and unprintable characters of the name are replaced.
[[nodiscard]] boost::json::object cm_process_json(const std::string& node, int pid,
                                                  const fabric::CmTable& table);
/// All processes of the subnet, whether its own process runs or not.
[[nodiscard]] boost::json::object cm_json(const fabric::Fabric& fabric,
                                          const fabric::SubnetFolder& folder);
/// A line for each ID, and one for each kind of message that a process has sent or received.
[[nodiscard]] std::string cm_text(const boost::json::object& cm,
                                  std::size_t width = ipoib::table::kUnlimited);

}  // namespace softib::cli
