// What the kernel has counted for network interfaces.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ipoib::ibarp {

struct HostBytes {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

/// The counts of all interfaces of the network namespace, by name; proc(5), /proc/net/dev.
[[nodiscard]] std::map<std::string, HostBytes> read_host_bytes();

}  // namespace ipoib::ibarp
