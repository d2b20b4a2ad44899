// Which process has a TUN or TAP device open.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace ipoib::linux {

struct TunHolder {
  pid_t pid = 0;
  std::string command;  ///< at most 15 characters, as in /proc/PID/comm
  friend bool operator==(const TunHolder&, const TunHolder&) = default;
};

/// A process in this network namespace that has the device open. Returns nullopt if this user may
/// see none: the kernel shows descriptors only to processes with the same user and at least the
/// same capabilities.
[[nodiscard]] std::optional<TunHolder> find_tun_holder(const std::string& interface);

}  // namespace ipoib::linux
