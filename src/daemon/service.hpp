// What a process of the background has: its process id in a file, and signals that end it.
#pragma once

#include <csignal>
#include <string>

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

/// While it lives, the calling thread gets neither SIGTERM nor SIGINT, which stay pending; threads
/// that it starts meanwhile never get them.
class EndingSignalsBlocked {
 public:
  EndingSignalsBlocked();
  EndingSignalsBlocked(const EndingSignalsBlocked&) = delete;
  EndingSignalsBlocked& operator=(const EndingSignalsBlocked&) = delete;
  ~EndingSignalsBlocked() { release(); }

  /// As before, until block() is called.
  void release();
  void block();

 private:
  sigset_t before_{};
};

}  // namespace ipoib::daemon
