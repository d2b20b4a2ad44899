// Gives the process, and those that it starts, a run folder of its own until it ends.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "ipoib/run_folder.hpp"

namespace ipoib::control {

class TemporaryRunFolder {
 public:
  TemporaryRunFolder() {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    ::chmod(path_.c_str(), 0755);  // for other users
    ::setenv(kRunFolderVariable, path_.c_str(), 1);
  }
  TemporaryRunFolder(const TemporaryRunFolder&) = delete;
  TemporaryRunFolder& operator=(const TemporaryRunFolder&) = delete;
  ~TemporaryRunFolder() {
    std::error_code ignored;
    if (owner_ == ::getpid()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "ipoibd-run-XXXXXX";
  const pid_t owner_ = ::getpid();
};

/// One for the whole process.
inline const TemporaryRunFolder kRunFolder;

}  // namespace ipoib::control
