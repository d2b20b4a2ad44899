// Files of the kernel about a device, below /sys/class/infiniband/<device>.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace ipoib::verbs {

/// The first line of a file, at most 255 characters; empty if it cannot be read.
[[nodiscard]] std::string read_sysfs(const ibv_context* context, const std::string& file);

}  // namespace ipoib::verbs
