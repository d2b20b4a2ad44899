// --softib: this program once more, on an HCA of an emulated subnet.
#pragma once

#include <span>
#include <string>

#include "daemon/options.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

/// Whether this process has been started by run_under_softib().
[[nodiscard]] bool is_under_softib();

/// Replaces this process by `softib run -- ipoibd ARGUMENTS`, after having started the subnet if it
/// is not running; such a subnet outlives us. Returns only by throwing std::runtime_error.
[[noreturn]] void run_under_softib(const SoftibTarget& target,
                                   std::span<const std::string> arguments, Logger& log);

}  // namespace ipoib::daemon
