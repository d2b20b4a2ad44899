// RoCE ports on the command line: their names, and starting their process.
#pragma once

#include <string>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// The folder of the RoCE port on a network interface or address of this network namespace; empty:
/// on the interface of the default route. Sets `interface` to what it is on. Fails with ENODEV if
/// there is none.
[[nodiscard]] ipoib::Result<fabric::SubnetFolder> roce_folder(std::string& interface);
/// Starts the process of a RoCE port, if it does not run; it ends some seconds after its last
/// program. Returns when programs can use it. The error says why it could not start.
[[nodiscard]] ipoib::Result<void> start_roce(const fabric::SubnetFolder& folder,
                                             const std::string& interface);

}  // namespace softib::cli
