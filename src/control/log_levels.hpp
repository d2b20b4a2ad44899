// The log levels of a program by module, for people who change them while it runs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "control/values.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// Knows the loggers of all modules. May be used from any thread: a logger's level is atomic.
class LogLevels {
 public:
  /// The modules are named by their loggers' names.
  explicit LogLevels(std::vector<std::shared_ptr<Logger>> loggers);

  [[nodiscard]] std::vector<ModuleLevel> all() const;
  /// Sets the level of a module, or of each for "all". Either all of `levels` are set or none: an
  /// unknown module or level is an error that names those there are.
  [[nodiscard]] Result<void> set(const std::vector<ModuleLevel>& levels);

 private:
  std::vector<std::shared_ptr<Logger>> loggers_;
};

}  // namespace ipoib::control
