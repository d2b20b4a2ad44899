// Forward declaration of the logger; code that logs includes ipoib/log.hpp.
#pragma once

namespace spdlog {
class logger;
}  // namespace spdlog

namespace ipoib {
using Logger = spdlog::logger;
}  // namespace ipoib
