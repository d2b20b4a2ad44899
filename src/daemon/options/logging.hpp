// The loggers of ipoibd: one per module, all with the same sink.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/log_levels.hpp"
#include "daemon/options/journal_sink.hpp"
#include "daemon/options/options.hpp"
#include "ipoib/address.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

/// The modules, named as in --log and `ibarp log`.
struct Logging {
  static constexpr std::array<std::string_view, 5> kModules{"link", "sa", "verbs", "control",
                                                            "daemon"};

  /// `wanted` has to pass control::check_levels().
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

/// What an interface logs about. Its name may change while any thread logs.
class LogPrefix {
 public:
  explicit LogPrefix(LogContext about) : about_(std::move(about)) {}
  void set(const std::string& name) {
    const std::lock_guard lock(mutex_);
    about_.interface = name;
  }
  [[nodiscard]] LogContext get() const {
    const std::lock_guard lock(mutex_);
    return about_;
  }

 private:
  mutable std::mutex mutex_;
  LogContext about_;
};

/// Loggers of one interface, which prefix each line with its name.
struct InterfaceLogs {
  InterfaceLogs(Logging& logs, const std::string& interface, PKey pkey);

  std::shared_ptr<LogPrefix> prefix;  ///< first: the others use it

  std::shared_ptr<Logger> link;
  std::shared_ptr<Logger> verbs;
  std::shared_ptr<Logger> control;
  std::shared_ptr<Logger> daemon;
};

}  // namespace ipoib::daemon
