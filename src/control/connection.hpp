// Client connection to the control socket of one interface.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>

#include "control/protocol.hpp"
#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

/// Blocks; for one thread at a time. ask() reconnects if the daemon has closed the connection or it
/// has failed.
class Connection {
 public:
  explicit Connection(std::string interface) : interface_(std::move(interface)) {}

  /// ENODEV: no daemon serves the interface; ESRCH: its daemon has died; EACCES: one of another
  /// user than root or ours does.
  [[nodiscard]] Result<void> open();
  /// Returns the daemon's response, or ETIMEDOUT, EPIPE, EPROTO, or an error of open().
  [[nodiscard]] Response ask(const Request& request);
  /// For each of the calls above; negative: no limit.
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

/// Names of the interfaces with a control socket in this network namespace, from the text of
/// /proc/net/unix.
[[nodiscard]] std::set<std::string> interfaces_in(std::string_view proc_net_unix);
/// Names of the TUN devices for InfiniBand in this network namespace. ipoibd creates such, and they
/// outlive a daemon that dies.
[[nodiscard]] std::set<std::string> tun_interfaces();

}  // namespace ipoib::control
