// Names the logger for headers that only hand it on; whoever logs includes ipoib/log.hpp.
#pragma once

namespace spdlog {
class logger;
}  // namespace spdlog

namespace ipoib {
using Logger = spdlog::logger;
}  // namespace ipoib
