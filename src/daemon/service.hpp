// What a service manager wants of a daemon: a word when it is ready, and its process id in a file.
#pragma once

#include <string>
#include <string_view>

#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

/// Sends `state`, such as "READY=1", to the service manager that NOTIFY_SOCKET names
/// (sd_notify(3)); does nothing without one.
void notify_service_manager(std::string_view state);

/// A file with the process id, removed at the end.
class PidFile {
 public:
  /// No file for an empty path. Throws std::runtime_error when it cannot be written.
  explicit PidFile(std::string path);
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile();

 private:
  std::string path_;
};

}  // namespace ipoib::daemon
