// Logging per module. Constructors take the logger; there is no registry. Its level is atomic, and
// may change at run time.
#pragma once

#include <spdlog/logger.h>

namespace ipoib {
using Logger = spdlog::logger;
}  // namespace ipoib
