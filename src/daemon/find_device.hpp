// Finding the RDMA device, without which there is nothing to do.
#pragma once

#include "daemon/options.hpp"
#include "ipoib/log_fwd.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// Opens the device that `options` names. When it or its port is not there, throws
/// std::runtime_error that says what to do; or waits until it is, with --wait. Everything else is
/// waited for by the links: that the port is active, and in the partition. Nothing when SIGTERM or
/// SIGINT came meanwhile; both are blocked.
[[nodiscard]] std::optional<verbs::Device> find_device(const Options& options, Logger& log);

}  // namespace ipoib::daemon
