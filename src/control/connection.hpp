// The client's end of the control socket of one interface.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "control/protocol.hpp"
#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

/// Asks and waits; for one thread at a time. Connects when it has to: a connection that the daemon
/// has closed, or that has failed, is made anew by the next call.
class Connection {
 public:
  explicit Connection(std::string interface) : interface_(std::move(interface)) {}

  /// ENODEV: nobody serves the interface; EACCES: somebody does who is neither root nor this user.
  [[nodiscard]] Result<void> open();
  /// The daemon's answer, or why there is none: ETIMEDOUT, EPIPE, EPROTO, or as open().
  [[nodiscard]] Response ask(const Request& request);
  /// For each of the calls above; negative: for ever.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool is_stale() const;
  [[nodiscard]] Result<void> check_owner() const;
  [[nodiscard]] Result<void> send(std::string_view line, Deadline deadline);
  [[nodiscard]] Result<std::string> receive_line(Deadline deadline);
  [[nodiscard]] Result<void> wait(short events, Deadline deadline) const;

  std::string interface_;
  std::chrono::milliseconds timeout_{5000};
  FileDescriptor socket_;
};

/// The interfaces that have a control socket in this network namespace, in order of name; from the
/// text of /proc/net/unix.
[[nodiscard]] std::vector<std::string> interfaces_in(std::string_view proc_net_unix);

}  // namespace ipoib::control
