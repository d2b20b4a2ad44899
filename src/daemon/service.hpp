// A daemon's process id, in a file.
#pragma once

#include <string>

#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

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
