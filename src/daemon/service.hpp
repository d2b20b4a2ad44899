// What a background process needs: a file with its process id, and handling of termination signals.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace ipoib::daemon {

/// A file with the process id, removed by the destructor.
class PidFile {
 public:
  /// An empty path means no file. Throws std::runtime_error if it cannot be written.
  explicit PidFile(std::string path);
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile();

 private:
  std::string path_;
};

/// The signals that end the daemon: SIGTERM, SIGINT, and SIGHUP unless it was started with that
/// ignored, as nohup(1) does.
[[nodiscard]] std::vector<int> termination_signals();

/// Blocks the termination signals for the calling thread during its lifetime; they stay pending.
/// Threads started meanwhile never receive them.
class TerminationSignalsBlocked {
 public:
  TerminationSignalsBlocked();
  TerminationSignalsBlocked(const TerminationSignalsBlocked&) = delete;
  TerminationSignalsBlocked& operator=(const TerminationSignalsBlocked&) = delete;
  ~TerminationSignalsBlocked() { release(); }

  /// Restores the signal mask until block() is called.
  void release();
  void block();

 private:
  sigset_t before_{};
};

}  // namespace ipoib::daemon
