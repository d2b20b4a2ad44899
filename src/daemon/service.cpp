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

std::vector<int> termination_signals() {
  std::vector<int> out{SIGTERM, SIGINT};
  struct sigaction hangup {};
  const bool is_ignored =
      ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  if (!is_ignored) out.push_back(SIGHUP);
  return out;
}

TerminationSignalsBlocked::TerminationSignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, nullptr, &before_);
  block();
}

void TerminationSignalsBlocked::block() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int number : termination_signals()) sigaddset(&ending, number);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
}

void TerminationSignalsBlocked::release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace ipoib::daemon
