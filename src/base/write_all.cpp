#include "ipoib/write_all.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace ipoib {

namespace {

/// Blocks the signals that a write sends. The kernel sends them to the thread that writes, so this
/// one takes them back.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGPIPE);
    ::sigaddset(&blocked, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    ::sigpending(&pending_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// To be called after a failure with this errno value.
  void take_back(int code) {
    const int raised = code == EPIPE ? SIGPIPE : code == EFBIG ? SIGXFSZ : 0;
    if (raised == 0 || ::sigismember(&pending_, raised) == 1) return;
    sigset_t taken;
    ::sigemptyset(&taken);
    ::sigaddset(&taken, raised);
    constexpr timespec kNoWait{0, 0};
    (void)::sigtimedwait(&taken, nullptr, &kNoWait);
  }

 private:
  sigset_t before_{};
  sigset_t pending_{};
};

}  // namespace

Written write_all(int file, std::span<const std::byte> bytes) {
  BlockedSignals signals;
  Written written;
  while (written.bytes < bytes.size() && written.code == 0) {
    const auto left = bytes.subspan(written.bytes);
    const ssize_t more = ::write(file, left.data(), left.size());
    if (more >= 0) {
      written.bytes += static_cast<std::size_t>(more);
    } else if (errno != EINTR) {
      written.code = errno;
    }
  }
  signals.take_back(written.code);
  return written;
}

int set_file_size(int file, std::size_t bytes) {
  BlockedSignals signals;
  const int code = ::ftruncate(file, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  signals.take_back(code);
  return code;
}

}  // namespace ipoib
