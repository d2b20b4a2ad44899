// The service manager that has started a daemon.
#pragma once

#include <string_view>

namespace ipoib {

/// Sends `state`, such as "READY=1", to the service manager that NOTIFY_SOCKET names
/// (sd_notify(3)); does nothing without one.
void notify_service_manager(std::string_view state);

}  // namespace ipoib
