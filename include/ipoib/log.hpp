// Logging per module. Constructors take the logger; there is no registry. Its level is atomic, and
// may change at run time.
#pragma once

#include <spdlog/logger.h>

namespace ipoib {
using Logger = spdlog::logger;

/// The format of all programs for lines on standard error: time, level, module, message.
inline constexpr const char* kLogPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %n: %v";
}  // namespace ipoib
