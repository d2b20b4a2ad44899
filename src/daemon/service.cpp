#include "daemon/service.hpp"

#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace ipoib::daemon {

PidFile::PidFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::ofstream file(path_, std::ios::trunc);
  file << ::getpid() << '\n';
  if (!file.flush()) throw std::runtime_error("--pid-file " + path_ + ": cannot be written");
}

PidFile::~PidFile() {
  if (!path_.empty()) (void)::unlink(path_.c_str());
}

}  // namespace ipoib::daemon
