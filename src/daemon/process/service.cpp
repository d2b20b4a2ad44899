#include "daemon/process/service.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "ipoib/output_file.hpp"

namespace ipoib::daemon {

namespace {

/// Whether a file has a process ID or nothing, as daemons leave it.
bool is_pid_file(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t written = 0;
  return file >> written ? file >> std::ws && file.eof() : file.eof();
}

}  // namespace

PidFile::PidFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  constexpr mode_t kMode = 0644;
  auto file = open_output_file(path_, O_EXCL, kMode);
  is_ours_ = file.has_value();
  if (!file && file.error().code == EEXIST) {
    if (!is_pid_file(path_)) {
      throw std::runtime_error("--pid-file " + path_ +
                               ": exists with other content than a process ID, and is not "
                               "overwritten: choose another path, or remove it");
    }
    file = open_output_file(path_, 0, kMode);
  }
  if (!file) throw std::runtime_error("--pid-file " + file.error().message);
  file_ = std::move(*file);
}

void PidFile::write() {
  if (!file_) return;
  is_ours_ = true;
  const std::string line = std::to_string(::getpid()) + '\n';
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("--pid-file " + path_ +
                             ": cannot be written: " + std::strerror(errno));
  }
}

PidFile::~PidFile() {
  if (!is_ours_) return;
  // A daemon that has taken over has written its own ID.
  if (pid_t written = 0; std::ifstream(path_) >> written && written != ::getpid()) return;
  if (::unlink(path_.c_str()) != 0) (void)!::ftruncate(file_.get(), 0);
}

std::vector<int> handled_signals() {
  std::vector<int> out{SIGTERM, SIGINT};
  struct sigaction hangup {};
  const bool is_ignored =
      ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  if (!is_ignored) out.push_back(SIGHUP);
  return out;
}

HandledSignals::HandledSignals() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int number : handled_signals()) sigaddset(&ending, number);
  descriptor_.reset(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) {
    throw std::runtime_error(std::string("cannot receive signals: signalfd: ") +
                             std::strerror(errno));
  }
  pthread_sigmask(SIG_BLOCK, &ending, &before_);
}

HandledSignals::~HandledSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> HandledSignals::take() const {
  signalfd_siginfo signal{};
  if (::read(descriptor_.get(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
  return static_cast<int>(signal.ssi_signo);
}

}  // namespace ipoib::daemon
