// Notification of the service manager, such as systemd.
#pragma once

#include <optional>
#include <string_view>

#include "ipoib/time.hpp"

namespace ipoib {

/// Sends `state`, such as "READY=1", to the socket in NOTIFY_SOCKET, if set (sd_notify(3)).
void notify_service_manager(std::string_view state);

/// Within this time the service manager expects a "WATCHDOG=1" again, else it ends the process
/// (sd_watchdog_enabled(3)); none: it expects nothing.
[[nodiscard]] std::optional<Duration> watchdog_period();

}  // namespace ipoib
