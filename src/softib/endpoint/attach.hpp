// How a process comes to its node.
#pragma once

#include <string>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::endpoint {

/// The node of an HCA (`hca`: see HcaName), by the fabric file, else by asking the subnet process
/// for one. A node that is in the file needs no subnet process: programs start while it is away.
[[nodiscard]] ipoib::Result<NodeIndex> find_or_add_node(const fabric::SubnetFolder& folder,
                                                        const std::string& hca);

}  // namespace softib::endpoint
