// Finding what an interface needs before there can be one.
#pragma once

#include "daemon/options.hpp"
#include "ipoib/log_fwd.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// Opens the device that `options` names. When it, its port or the partition is not there, throws
/// std::runtime_error that says what to do; or waits until they are, with --wait. A port that is
/// not active yet is waited for by the link, and so is its partition: the SM has not written the
/// port's P_Key table yet. Nothing when SIGTERM or SIGINT came meanwhile; both are blocked.
[[nodiscard]] std::optional<verbs::Device> find_device(const Options& options, Logger& log);

}  // namespace ipoib::daemon
