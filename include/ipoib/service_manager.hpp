// Notification of the service manager, such as systemd.
#pragma once

#include <string_view>

namespace ipoib {

/// Sends `state`, such as "READY=1", to the socket in NOTIFY_SOCKET, if set (sd_notify(3)).
void notify_service_manager(std::string_view state);

}  // namespace ipoib
