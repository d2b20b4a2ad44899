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

TerminationSignalsBlocked::TerminationSignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, nullptr, &before_);
  block();
}

void TerminationSignalsBlocked::block() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
}

void TerminationSignalsBlocked::release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace ipoib::daemon
