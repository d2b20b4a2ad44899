// Finds and opens the RDMA device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/options/options.hpp"
#include "ipoib/log_fwd.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// Opens the device that `options` selects. If it or its port does not exist, waits for it with
/// --wait, and otherwise throws std::runtime_error with advice. Does not wait for the port to be
/// active or in a partition, since links do. Calls `on_wait` once with the reason when it begins to
/// wait, and `on_reload` for each SIGHUP. Returns nullopt if SIGTERM or SIGINT has arrived; all
/// handled_signals() must be blocked.
[[nodiscard]] std::optional<verbs::Device> find_device(
    const Options& options, Logger& log, const std::function<void(const std::string&)>& on_wait,
    const std::function<void()>& on_reload);

/// Opens the device of the backup port; nullptr without --backup, or if it cannot be opened, which
/// is logged, since the daemon works without it. Throws std::runtime_error if one port is of
/// InfiniBand and the other one of RoCE.
[[nodiscard]] std::shared_ptr<const verbs::Device> open_backup(const verbs::Device& primary,
                                                               const Options& options, Logger& log);
/// The last check of open_backup(), for the layers of the ports.
void check_link_layers(verbs::LinkLayer primary, verbs::LinkLayer backup, const PortName& option);

}  // namespace ipoib::daemon
