// Sends a request and waits for the line that is its response.
#include "control/connection.hpp"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

#include "control/socket_folder.hpp"
#include "ipoib/peer_process.hpp"
#include "ipoib/unix_path.hpp"

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

SteadyClock::time_point after(milliseconds timeout) {
  return timeout < milliseconds::zero() ? SteadyClock::time_point::max()
                                        : SteadyClock::now() + timeout;
}

/// An interface's folder in one of run_folders().
std::string folder_of(const std::string& run_folder, std::uint64_t network_namespace,
                      const std::string& interface) {
  return run_folder + "/" + namespace_folder(network_namespace) + "/" + interface;
}

/// A text that says who may use a socket, by its owner and mode.
std::string allowed_at(const std::string& path) {
  struct stat status {};
  SocketAccess access;
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWGRP) != 0) {
    access.group = status.st_gid;
    struct group entry {};
    struct group* found = nullptr;
    std::array<char, 4096> names{};
    ::getgrgid_r(status.st_gid, &entry, names.data(), names.size(), &found);
    access.group_name = found != nullptr ? found->gr_name : std::to_string(status.st_gid);
  }
  return access.allowed();
}

/// A connected socket; the error has an errno value.
Result<FileDescriptor> connected(const std::string& path, int type, milliseconds timeout) {
  const auto to = UnixPath::of(path);
  if (!to) return to.error();
  FileDescriptor made(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!made) return from_errno(path, errno);
  const timeval limit = as_timeval(timeout);
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (::connect(made.get(), to->address(), UnixPath::size()) != 0) return from_errno(path, errno);
  return made;
}

}  // namespace

/// A daemon that goes on with its interface in another way, such as without its RDMA device, has no
/// socket for a moment. Where several daemons have ended, they are waited for once, not one after
/// the other.
Result<void> Connection::open() {
  if (!is_interface_name(interface_)) {
    return Error{
        ENODEV,
        "\"" + interface_ +
            "\" cannot be the name of an interface: 1 to 15 characters without / and blanks"};
  }
  static std::atomic<SteadyClock::time_point> waited_in_vain{SteadyClock::time_point()};
  const auto begin = SteadyClock::now();
  const bool has_waited = begin < waited_in_vain.load() + kReopenPause;
  const Deadline until = has_waited ? begin : std::min(after(kReopenTime), after(timeout_));
  while (true) {
    auto opened = try_open();
    if (opened || opened.error().code != ESRCH) return opened;
    if (SteadyClock::now() >= until) {
      if (until >= begin + kReopenTime) waited_in_vain = SteadyClock::now();
      return opened;
    }
    std::this_thread::sleep_for(kReopenInterval);
  }
}

/// Looks for the interface in all run folders. The socket that allows changes is preferred.
Result<void> Connection::try_open() {
  const auto own = own_network_namespace();
  if (!own) return own.error();
  for (const auto& run_folder : run_folders()) {
    const std::string folder = folder_of(run_folder, *own, interface_);
    int code = connect_to(folder + "/" + kControlSocket);
    if (code == EACCES || code == EPERM) {
      code = connect_to(folder + "/" + kReadSocket);
      if (code == ENOENT || code == EACCES || code == EPERM) {
        return Error{EACCES, interface_ + ": " + allowed_at(folder + "/" + kControlSocket) +
                                 " may use its control socket"};
      }
    }
    if (code == 0) return {};
    if (code == EAGAIN) {
      return Error{ETIMEDOUT,
                   interface_ + ": ipoibd does not accept connections: see its log, or restart it"};
    }
    if (code != ENOENT && code != ENOTDIR && code != ECONNREFUSED) {
      return from_errno(interface_, code);
    }
  }
  return not_found();
}

/// Returns an errno value, or 0.
int Connection::connect_to(const std::string& path) {
  auto made = connected(path, SOCK_STREAM, timeout_);
  if (!made) return made.error().code;
  socket_ = std::move(*made);
  input_.clear();
  return 0;
}

Result<FileDescriptor> Connection::open_capture() {
  if (auto opened = open(); !opened) return opened.error();
  const auto own = own_network_namespace();
  if (!own) return own.error();
  for (const auto& run_folder : run_folders()) {
    const std::string path = folder_of(run_folder, *own, interface_) + "/" + kCaptureSocket;
    auto made = connected(path, SOCK_SEQPACKET, timeout_);
    if (made) return made;
    const int code = made.error().code;
    if (code == EACCES || code == EPERM) {
      return Error{EACCES, interface_ + ": " + allowed_at(path) + " may capture"};
    }
    if (code != ENOENT && code != ENOTDIR && code != ECONNREFUSED) {
      return from_errno(interface_, code);
    }
  }
  return Error{EOPNOTSUPP, interface_ + ": its ipoibd cannot capture: restart it"};
}

/// Why no daemon serves the interface.
Error Connection::not_found() const {
  const auto tun = tun_interfaces();
  const auto found = tun.find(interface_);
  if (found == tun.end()) {
    return {ENODEV,
            interface_ +
                ": no ipoibd runs this interface in this network namespace: start it, or see "
                "in its log why it has ended"};
  }
  if (found->second) {
    return {ESRCH,
            interface_ + ": the control socket of its ipoibd is not in " + run_folders().front() +
                ": set IPOIBD_DIR to the folder that it uses; a container has to mount that of the "
                "daemon's host"};
  }
  return {ESRCH,
          interface_ + ": its ipoibd is not running: start it again, or delete the interface"};
}

pid_t Connection::server_process() const {
  const auto peer = peer_process(socket_.get());
  return peer ? peer->pid : 0;
}

// If the socket is readable while idle, there is an end of file (the daemon has ended or has closed
// an idle connection), or a line that is no response to a request.
bool Connection::is_stale() const {
  if (!input_.empty()) return true;
  pollfd poller{socket_.get(), POLLIN, 0};
  return poll(&poller, 1, 0) != 0;
}

Response Connection::ask(const Request& request) {
  const Deadline deadline = after(timeout_);
  if (const auto sent = send_request(request, deadline); sent.has_error()) return sent.error();
  return response_of(request, receive_line(deadline));
}

Result<void> Connection::send_request(const Request& request) {
  return send_request(request, after(timeout_));
}

Response Connection::await_response(const Request& request, milliseconds timeout) {
  const auto line = receive_line(after(timeout));
  if (line.has_error() && line.error().code == ETIMEDOUT) {
    return Error{EAGAIN, interface_ + ": no response yet"};
  }
  return response_of(request, line);
}

Result<void> Connection::send_request(const Request& request, Deadline deadline) {
  if (!socket_ || is_stale()) {
    if (auto opened = open(); opened.has_error()) return opened;
  }
  auto sent = send(emit(request), deadline);
  // A daemon that refuses the connection sends its reason and closes without reading the request.
  if (sent.has_error() && sent.error().code == EPIPE) return {};
  if (sent.has_error()) socket_ = FileDescriptor();
  return sent;
}

Response Connection::response_of(const Request& request, const Result<std::string>& line) {
  if (line.has_error()) {
    // A late response must not be taken for that of the next request.
    socket_ = FileDescriptor();
    return line.error();
  }
  Response response = parse_response(request, *line);
  if (response.has_error() && response.error().code == EPROTO) socket_ = FileDescriptor();
  return response;
}

Result<Event> Connection::next_event(milliseconds timeout) {
  const Deadline deadline = after(timeout);
  for (;;) {
    const auto line = receive_line(deadline);
    if (line.has_error()) {
      const bool is_late = line.error().code == ETIMEDOUT;
      return is_late ? Error{EAGAIN, interface_ + ": no event has come within the time-out"}
                     : line.error();
    }
    auto event = parse_event(*line);
    // A newer daemon may know more kinds.
    if (event.has_value() || event.error().code != EOPNOTSUPP) return event;
  }
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
      return Error{ETIMEDOUT, interface_ + ": ipoibd does not respond: see its log, or restart it"};
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
  std::array<char, 16384> buffer{};
  for (std::size_t searched = 0; searched < kMaxResponseLine;) {
    if (const auto end = input_.find('\n', searched); end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    searched = input_.size();
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      input_.append(buffer.data(), static_cast<std::size_t>(n));
      continue;
    }
    if (n == 0 || errno == ECONNRESET) {
      return Error{EPIPE,
                   interface_ + ": ipoibd has closed the connection: see its log, or try again"};
    }
    if (errno == EAGAIN) {
      if (const auto ready = wait(POLLIN, deadline); ready.has_error()) return ready.error();
    } else if (errno != EINTR) {
      return from_errno(interface_, errno);
    }
  }
  return Error{
      EPROTO,
      interface_ +
          ": the response of ipoibd is too long: restart it, or run the ibarp of its version"};
}

}  // namespace ipoib::control
