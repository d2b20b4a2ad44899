// Log levels by module, changeable at run time.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "control/values.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// Checks names of modules and levels. The error for an unknown one lists the known ones. "all"
/// stands for each of `modules`.
[[nodiscard]] Result<void> check_levels(const std::vector<ModuleLevel>& levels,
                                        std::span<const std::string_view> modules);

/// The loggers and their levels. For one thread; other threads may use the loggers, whose levels
/// are atomic.
class LogLevels {
 public:
  /// One logger for each module, named like it.
  explicit LogLevels(std::vector<std::shared_ptr<Logger>> loggers);

  /// Adds another logger for the module of its name. It has the module's level while it lives.
  void add(const std::shared_ptr<Logger>& logger);

  [[nodiscard]] std::vector<ModuleLevel> all() const;
  /// Sets the level of a module, or of all for "all". Sets all of `levels`, or none if
  /// check_levels() fails.
  [[nodiscard]] Result<void> set(const std::vector<ModuleLevel>& levels);

 private:
  std::vector<std::shared_ptr<Logger>> loggers_;  ///< one per module
  std::vector<std::weak_ptr<Logger>> others_;
};

}  // namespace ipoib::control
