// --softib: runs this program again, on an HCA of an emulated subnet.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/options/options.hpp"

namespace ipoib::daemon {

/// Whether run_under_softib() has started this process.
[[nodiscard]] bool is_under_softib();

/// Whether the devices are those of an emulated subnet.
[[nodiscard]] bool is_on_softib();

/// Whether the emulated subnet or the capture of its packets belongs to another user, who has not
/// given this one access: only root may use them.
[[nodiscard]] bool uses_softib_of_another_user();

/// Replaces this process by `softib run -- ipoibd ARGUMENTS`, and starts the subnet, or the process
/// of the RoCE port, if it is not running. A new HCA is attached to a subnet by port `port`. Throws
/// std::runtime_error on failure.
[[noreturn]] void run_under_softib(const SoftibTarget& target, std::uint8_t port,
                                   std::span<const std::string> arguments);

/// Makes a subnet started by run_under_softib() outlive this process, once that has come up;
/// before, it ends with this process. Returns false if no subnet was started.
bool let_subnet_stay();

}  // namespace ipoib::daemon
