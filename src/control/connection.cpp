// Sends a request and waits for the line that is its response.
#include "control/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

namespace ipoib::control {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

Error from_errno(const std::string& what, int code) {
  return {code, what + ": " + std::generic_category().message(code)};
}

/// How long connect(2) may wait while the listener's backlog is full.
timeval as_timeval(milliseconds timeout) {
  if (timeout < milliseconds::zero()) return {};  // no limit
  const auto wait = std::max(timeout, milliseconds(1));
  return {wait.count() / 1000, wait.count() % 1000 * 1000};
}

}  // namespace

Result<void> Connection::open() {
  const std::string name = std::string(kSocketPrefix) + interface_;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (interface_.empty() || name.size() > sizeof(to.sun_path) - 1) {
    return Error{ENODEV, "\"" + interface_ + "\" is not the name of an interface"};
  }
  std::copy(name.begin(), name.end(), to.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());

  socket_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_) return from_errno("socket", errno);
  const timeval limit = as_timeval(timeout_);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    const int code = errno;
    socket_ = FileDescriptor();
    if (code == ECONNREFUSED && tun_interfaces().contains(interface_)) {
      return Error{ESRCH, interface_ +
                              ": its ipoibd is not running: start it again, or delete the "
                              "interface"};
    }
    if (code == ECONNREFUSED) {
      return Error{ENODEV,
                   interface_ + ": no ipoibd runs this interface in this network namespace"};
    }
    if (code == EAGAIN)
      return Error{ETIMEDOUT, interface_ + ": ipoibd does not accept connections"};
    return from_errno(interface_, code);
  }
  auto trusted = check_owner();
  if (trusted.has_error()) socket_ = FileDescriptor();
  return trusted;
}

// Anybody may bind a free abstract name, so only daemons of root and of this user are trusted.
Result<void> Connection::check_owner() const {
  ucred owner{};
  socklen_t size = sizeof(owner);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &owner, &size) != 0) {
    return from_errno(interface_, errno);
  }
  if (owner.uid == 0 || owner.uid == geteuid()) return {};
  return Error{EACCES, interface_ + ": its control socket belongs to user " +
                           std::to_string(owner.uid) + ", process " + std::to_string(owner.pid) +
                           ", which is not trusted"};
}

// Readable while idle means end of file (the daemon has ended or has closed an idle connection), or
// a line that is no response to a request.
bool Connection::is_stale() const {
  pollfd poller{socket_.get(), POLLIN, 0};
  return poll(&poller, 1, 0) != 0;
}

Response Connection::ask(const Request& request) {
  const Deadline deadline =
      timeout_ < milliseconds::zero() ? Deadline::max() : SteadyClock::now() + timeout_;
  if (!socket_ || is_stale()) {
    if (const auto opened = open(); opened.has_error()) return opened.error();
  }
  const auto sent = send(emit(request), deadline);
  // A daemon that refuses the connection sends its reason and closes without reading the request.
  auto line = sent.has_value() || sent.error().code == EPIPE ? receive_line(deadline)
                                                             : Result<std::string>(sent.error());
  if (line.has_error()) {
    socket_ = FileDescriptor();
    return line.error();
  }
  Response response = parse_response(request, *line);
  if (response.has_error() && response.error().code == EPROTO) socket_ = FileDescriptor();
  return response;
}

Result<void> Connection::wait(short events, Deadline deadline) const {
  for (;;) {
    milliseconds left(-1);
    if (deadline != Deadline::max()) {
      left = std::chrono::ceil<milliseconds>(deadline - SteadyClock::now());
      left = std::clamp(left, milliseconds::zero(), milliseconds(std::chrono::hours(1)));
    }
    pollfd poller{socket_.get(), events, 0};
    const int ready = poll(&poller, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return from_errno(interface_, errno);
    if (deadline != Deadline::max() && SteadyClock::now() >= deadline) {
      return Error{ETIMEDOUT, interface_ + ": ipoibd does not respond"};
    }
  }
}

Result<void> Connection::send(std::string_view line, Deadline deadline) {
  while (!line.empty()) {
    const ssize_t n = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      line.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (auto ready = wait(POLLOUT, deadline); ready.has_error()) return ready;
    } else if (errno != EINTR) {
      return from_errno(interface_, errno);
    }
  }
  return {};
}

Result<std::string> Connection::receive_line(Deadline deadline) {
  std::string line;
  std::array<char, 16384> buffer{};
  while (line.size() < kMaxResponseLine) {
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      line.append(buffer.data(), static_cast<std::size_t>(n));
      if (line.back() != '\n') continue;
      line.pop_back();
      return line;
    }
    if (n == 0 || errno == ECONNRESET) {
      return Error{EPIPE, interface_ + ": ipoibd has closed the connection"};
    }
    if (errno == EAGAIN) {
      if (const auto ready = wait(POLLIN, deadline); ready.has_error()) return ready.error();
    } else if (errno != EINTR) {
      return from_errno(interface_, errno);
    }
  }
  return Error{EPROTO, interface_ + ": the response of ipoibd is too long"};
}

}  // namespace ipoib::control
