// The socket on which the daemon answers librdmacm in place of ibacm, /run/ipoibd/ibacm.sock, and
// the clients that are connected to it.
//
// Programs know it as /run/ibacm.sock. Only root can create that name, so it is a link, which a
// daemon that begins as root makes before it gives that up.
//
// Both outlive the RDMA device, since a program of librdmacm connects once, and is ended by SIGPIPE
// if it asks after its connection was closed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "control/counter.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "ipoib/run_folder.hpp"

namespace ipoib::daemon::acm {

inline constexpr const char* kSocket = "ibacm.sock";
/// Where librdmacm looks for it.
inline constexpr const char* kSystemFolder = "/run";

struct Counters {
  std::uint64_t clients = 0;       ///< accepted
  std::uint64_t refused = 0;       ///< clients beyond the limits
  std::uint64_t requests = 0;      ///< valid
  std::uint64_t bad_requests = 0;  ///< invalid, also those that ended their connection
  std::uint64_t delayed = 0;       ///< requests beyond the rate
  std::uint64_t failed = 0;        ///< valid requests without a path in response
};
[[nodiscard]] std::vector<control::Counter> as_values(const Counters& counters);

struct Client {
  FileDescriptor socket;
  uid_t user = 0;
};

class Socket {
 public:
  /// Listens in the run folder. Whoever may read the control sockets may connect. Fails with
  /// EADDRINUSE if another process listens there that is not `predecessor`, whose socket is
  /// replaced.
  [[nodiscard]] static Result<Socket> open(const control::SocketAccess& access, pid_t predecessor);
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&&) = delete;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  /// Removes the name, and the link to it if it may, unless another daemon has taken it.
  ~Socket();

  [[nodiscard]] const FileDescriptor& listener() const { return listener_; }

  std::vector<Client> clients;  ///< while no Server has them
  Counters counters;

 private:
  Socket(Folder folder, FileDescriptor listener, ino_t inode)
      : folder_(std::move(folder)), listener_(std::move(listener)), inode_(inode) {}

  Folder folder_;
  FileDescriptor listener_;
  ino_t inode_;
};

/// Makes the name `system`/ibacm.sock lead to the socket in `run_folder`, if that is below
/// `system`. A link that leads nowhere is replaced. Fails with EADDRINUSE if the name is another
/// server's.
[[nodiscard]] Result<void> link_socket(const std::string& run_folder,
                                       const std::string& system = kSystemFolder);

}  // namespace ipoib::daemon::acm
