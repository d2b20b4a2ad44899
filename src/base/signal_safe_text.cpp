#include "ipoib/signal_safe_text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>

namespace ipoib {

namespace {

std::int64_t now_in_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Like write(2), but does not wait for room in a socket.
ssize_t write_some(int fd, const char* text, std::size_t size) {
  const ssize_t sent = ::send(fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == ENOTSOCK ? ::write(fd, text, size) : sent;
}

}  // namespace

SignalSafeText::SignalSafeText(int fd)
    : fd_(fd), deadline_(now_in_milliseconds() + kPatience.count()), gave_up_(fd < 0) {}

SignalSafeText& SignalSafeText::operator<<(const char* text) {
  for (; *text != '\0'; ++text) put(*text);
  return *this;
}

SignalSafeText& SignalSafeText::hexadecimal(std::uint64_t value) {
  *this << "0x";
  int digits = 1;
  while (digits < 16 && value >> (4 * digits) != 0) ++digits;
  while (digits-- > 0) put("0123456789abcdef"[value >> (4 * digits) & 0xf]);
  return *this;
}

SignalSafeText& SignalSafeText::seconds(Duration::rep nanoseconds) {
  constexpr std::uint64_t kNanoPerSecond = 1'000'000'000;
  auto value = static_cast<std::uint64_t>(nanoseconds);
  if (nanoseconds < 0) {
    put('-');
    value = std::uint64_t{0} - value;
  }
  decimal(value / kNanoPerSecond, 1);
  put('.');
  decimal(value % kNanoPerSecond, 9);
  return *this;
}

void SignalSafeText::decimal(std::uint64_t value, std::size_t width) {
  std::array<char, 20> digits{};
  std::size_t count = 0;
  for (; value != 0 || count < width; value /= 10) {
    digits[count++] = static_cast<char>('0' + value % 10);
  }
  while (count > 0) put(digits[--count]);
}

void SignalSafeText::put(char c) {
  if (used_ == buffer_.size()) flush();
  buffer_[used_++] = c;
}

/// A pipe that poll(2) calls writable takes PIPE_BUF bytes, more than the buffer has, at once.
void SignalSafeText::flush() {
  std::size_t done = 0;
  while (done < used_ && !gave_up_) {
    if (!wait()) break;
    const ssize_t n = write_some(fd_, buffer_.data() + done, used_ - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      break;  // no way to report it
    }
  }
  gave_up_ = gave_up_ || done < used_;
  used_ = 0;
}

bool SignalSafeText::wait() const {
  for (;;) {
    const auto left = std::max<std::int64_t>(0, deadline_ - now_in_milliseconds());
    pollfd writable{fd_, POLLOUT, 0};
    const int ready = ::poll(&writable, 1, static_cast<int>(left));
    if (ready != 0 && !(ready < 0 && errno == EINTR)) return ready > 0;
    if (left == 0) return false;
  }
}

int reopen_without_blocking(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return -1;
  if (!S_ISFIFO(status.st_mode) && ::isatty(fd) != 1) return -1;
  const auto path = "/proc/self/fd/" + std::to_string(fd);
  return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace ipoib
