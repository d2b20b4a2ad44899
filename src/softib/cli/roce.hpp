// RoCE ports on the command line: their names, and starting their process.
#pragma once

#include <cstdint>
#include <string>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// Where a RoCE port is.
struct RocePort {
  std::string interface;        ///< a network interface, or one of its addresses
  std::uint64_t seed;           ///< for the GUIDs of its HCA
  fabric::SubnetFolder folder;  ///< of its process
};

/// The RoCE port on a network interface or address of this network namespace; empty: on the
/// interface of the default route. Fails with ENODEV if there is none.
[[nodiscard]] ipoib::Result<RocePort> find_roce_port(std::string interface);
/// Starts the process of a RoCE port, if it does not run; it ends some seconds after its last
/// program. Returns when programs can use it. The error says why it could not start.
[[nodiscard]] ipoib::Result<void> start_roce(const RocePort& port);

}  // namespace softib::cli
