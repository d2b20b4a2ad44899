// The loggers of ipoibd: one per module, all with the same sink.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "control/log_levels.hpp"
#include "daemon/options.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

/// The modules, named as in --log and `ibarp log`.
struct Logging {
  /// Throws UsageError for an unknown module or level.
  Logging(LogTarget target, const std::vector<control::ModuleLevel>& wanted);

  std::shared_ptr<Logger> link;
  std::shared_ptr<Logger> sa;
  std::shared_ptr<Logger> verbs;
  std::shared_ptr<Logger> control;
  std::shared_ptr<Logger> daemon;
  control::LogLevels levels;

 private:
  explicit Logging(const std::shared_ptr<spdlog::sinks::sink>& sink);
};

/// The name of an interface, which may change while any thread logs.
class LogPrefix {
 public:
  explicit LogPrefix(std::string name) : name_(std::move(name)) {}
  void set(const std::string& name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  [[nodiscard]] std::string get() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

/// Loggers of one interface, which prefix each line with its name.
struct InterfaceLogs {
  InterfaceLogs(Logging& logs, const std::string& interface);

  std::shared_ptr<LogPrefix> prefix;  ///< first: the others use it

  std::shared_ptr<Logger> link;
  std::shared_ptr<Logger> verbs;
  std::shared_ptr<Logger> control;
  std::shared_ptr<Logger> daemon;
};

}  // namespace ipoib::daemon
