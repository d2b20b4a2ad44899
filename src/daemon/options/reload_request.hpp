// ipoibd --reload: makes running daemons read their configuration again.
#pragma once

#include <string>

#include "daemon/options/options.hpp"

namespace ipoib::daemon {

/// Sends SIGHUP to the daemons with interfaces in the network namespace that `options` name: to
/// that of the device and port if they name a device, else to all. Returns a line about each.
/// Throws std::runtime_error if there is none, or if this user may not do so.
[[nodiscard]] std::string request_reload(const Options& options);

}  // namespace ipoib::daemon
