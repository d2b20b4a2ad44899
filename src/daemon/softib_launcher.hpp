// --softib: this program once more, on an HCA of an emulated subnet.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/options.hpp"

namespace ipoib::daemon {

/// Whether this process has been started by run_under_softib().
[[nodiscard]] bool is_under_softib();

/// Replaces this process by `softib run -- ipoibd ARGUMENTS`, after having started the subnet if it
/// is not running; a new HCA is on it by its port `port`. Returns only by throwing
/// std::runtime_error.
[[noreturn]] void run_under_softib(const SoftibTarget& target, std::uint8_t port,
                                   std::span<const std::string> arguments);

/// For the second run, when it has come up: a subnet that was started for it outlives it from now
/// on; before, it ends when this process ends, however that happens. False: there is none such.
bool let_subnet_stay();

}  // namespace ipoib::daemon
