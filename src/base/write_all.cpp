#include "ipoib/write_all.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace ipoib {

/// The kernel sends both signals to the thread that writes, so this one takes them back.
Written write_all(int file, std::span<const std::byte> bytes) {
  sigset_t blocked;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGPIPE);
  ::sigaddset(&blocked, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  ::sigpending(&pending);
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
  const int raised = written.code == EPIPE ? SIGPIPE : written.code == EFBIG ? SIGXFSZ : 0;
  if (raised != 0 && ::sigismember(&pending, raised) == 0) {
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, raised);
    constexpr timespec kNoWait{0, 0};
    (void)::sigtimedwait(&blocked, nullptr, &kNoWait);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return written;
}

}  // namespace ipoib
