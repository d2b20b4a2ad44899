// What a background process needs: a file with its process id, and handling of termination signals.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::daemon {

/// A file with the process id. It is opened while the process may write there, and written later,
/// when it is certain that the daemon serves its interfaces.
class PidFile {
 public:
  /// An empty path means no file. Throws std::runtime_error if it cannot be opened, or another user
  /// has chosen the file (open_output_file()).
  explicit PidFile(std::string path);
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  /// Removes the file that it has written or created, unless another process has written it since;
  /// empties it if that is not permitted any more.
  ~PidFile();

  /// Writes the process id. Throws std::runtime_error if it fails.
  void write();

 private:
  const std::string path_;
  FileDescriptor file_;
  bool is_ours_ = false;  ///< the file is new, or has been written
};

/// The signals that end the daemon, SIGTERM and SIGINT, and that which makes it read its
/// configuration again, SIGHUP, unless it was started with that ignored, as nohup(1) does.
[[nodiscard]] std::vector<int> handled_signals();

/// Blocks these signals for the calling thread and those that it starts, and reads them
/// from a descriptor. So none is lost, whatever the daemon is doing. At most one object may exist.
class HandledSignals {
 public:
  /// Throws std::runtime_error if there is no descriptor.
  HandledSignals();
  HandledSignals(const HandledSignals&) = delete;
  HandledSignals& operator=(const HandledSignals&) = delete;
  /// Unblocks them.
  ~HandledSignals();

  /// Readable while there is a signal.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// The next signal, if there is one.
  [[nodiscard]] std::optional<int> take() const;

 private:
  sigset_t before_{};
  FileDescriptor descriptor_;
};

}  // namespace ipoib::daemon
