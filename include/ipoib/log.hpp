// Logging by module. A logger is handed in by whoever makes the module; nobody looks one up.
// Its level is atomic and may change while running.
#pragma once

#include <spdlog/logger.h>

namespace ipoib {
using Logger = spdlog::logger;
}  // namespace ipoib
