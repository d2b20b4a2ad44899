// The log levels of a program by module, for people who change them while it runs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "control/values.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// Knows the loggers of all modules. For one thread; those that log may be others, since a logger's
/// level is atomic.
class LogLevels {
 public:
  /// The modules are named by their loggers' names.
  explicit LogLevels(std::vector<std::shared_ptr<Logger>> loggers);

  /// Another logger of the module that it is named like: has its level, for as long as it lives.
  void add(const std::shared_ptr<Logger>& logger);

  [[nodiscard]] std::vector<ModuleLevel> all() const;
  /// Sets the level of a module, or of each for "all". Either all of `levels` are set or none: an
  /// unknown module or level is an error that names those there are.
  [[nodiscard]] Result<void> set(const std::vector<ModuleLevel>& levels);

 private:
  std::vector<std::shared_ptr<Logger>> loggers_;  ///< one a module
  std::vector<std::weak_ptr<Logger>> others_;
};

}  // namespace ipoib::control
