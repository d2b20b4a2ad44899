// Client connection to the control socket of one interface.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "control/protocol.hpp"
#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

/// How long a daemon whose network interface is there may have no socket before it counts as dead,
/// how often it is looked for, and how long other ones are not waited for after that.
inline constexpr std::chrono::milliseconds kReopenTime{200};
inline constexpr std::chrono::milliseconds kReopenInterval{10};
inline constexpr std::chrono::milliseconds kReopenPause{1000};

/// A connection whose methods block, for one thread at a time. ask() reconnects if the daemon has
/// closed the connection or it has failed. After a SubscribeRequest there are only events.
class Connection {
 public:
  explicit Connection(std::string interface) : interface_(std::move(interface)) {}

  [[nodiscard]] const std::string& interface() const { return interface_; }
  /// Connects. Waits at most kReopenTime, and not longer than the time-out, for a daemon without a
  /// socket. Fails with ENODEV if no daemon serves the interface, ESRCH if its daemon has died or
  /// its folder is not visible here, and EACCES if this user may not even read.
  [[nodiscard]] Result<void> open();
  /// Returns the daemon's response, or ETIMEDOUT, EPIPE, EPROTO, or an error of open().
  [[nodiscard]] Response ask(const Request& request);
  /// Sends a request: the first half of ask().
  [[nodiscard]] Result<void> send_request(const Request& request);
  /// Waits for the response: the second half of ask(). Fails with EAGAIN if there is none in time;
  /// it may still come. A negative time-out means no limit.
  [[nodiscard]] Response await_response(const Request& request, std::chrono::milliseconds timeout);
  /// Connects to the socket for captures. In addition to the errors of open(), fails with EACCES if
  /// this user may not capture, and EOPNOTSUPP if the daemon is too old for it.
  [[nodiscard]] Result<FileDescriptor> open_capture();
  /// The process that serves the interface, in the PID namespace of this one; 0 if it is in another
  /// one, or without a connection.
  [[nodiscard]] pid_t server_process() const;
  /// Sets the time-out of each of the calls above; negative for no limit.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// Waits for the next event; a negative time-out means no limit. Fails with EAGAIN if there is
  /// none in time, EPIPE if the daemon has closed the connection, and EPROTO.
  [[nodiscard]] Result<Event> next_event(std::chrono::milliseconds timeout);
  /// The descriptor is readable when there may be a response or an event, unless one is buffered,
  /// so call next_event() until EAGAIN.
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  [[nodiscard]] Result<void> try_open();
  [[nodiscard]] bool is_stale() const;
  [[nodiscard]] int connect_to(const std::string& path);
  [[nodiscard]] Error not_found() const;
  [[nodiscard]] Result<void> send_request(const Request& request, Deadline deadline);
  [[nodiscard]] Response response_of(const Request& request, const Result<std::string>& line);
  [[nodiscard]] Result<void> send(std::string_view line, Deadline deadline);
  [[nodiscard]] Result<std::string> receive_line(Deadline deadline);
  [[nodiscard]] Result<void> wait(short events, Deadline deadline) const;

  std::string interface_;
  std::chrono::milliseconds timeout_{5000};
  FileDescriptor socket_;
  std::string input_;  ///< received and not returned yet
};

/// Whether the kernel permits the name, and it is printable.
[[nodiscard]] bool is_interface_name(std::string_view name);
/// Names of the interfaces of this network namespace with a control socket that a process has open.
[[nodiscard]] Result<std::set<std::string>> served_interfaces();
/// The TUN devices for InfiniBand in this network namespace, and whether a process has given them a
/// carrier. ipoibd creates such, and they outlive a daemon that dies.
[[nodiscard]] std::map<std::string, bool> tun_interfaces();

}  // namespace ipoib::control
