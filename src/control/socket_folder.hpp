// The folder of an interface's control sockets, and its rights:
//
//   <run folder>/net-<inode>/<interface>/
//       control   socket for those who may change things: the daemon's user and a group
//       read      socket for those who may only read: everybody; missing if nobody else may read
//       capture   socket for captures, with the rights of control
//       handover  socket for a daemon that takes the interface over: the daemon's user
//       lock      its first byte is locked by the daemon that serves the interface, its second one
//                 by who removes the folder; has the daemon's process id
//
// <inode> is that of the interface's network namespace (`lsns -t net` prints it), which identifies
// a namespace while it exists (namespaces(7)). Connecting to a socket takes write permission for it
// (unix(7)), so the file system decides who may do what. Credentials of the peer would not do: a
// process may have user id 0 in a container without having rights on the host's network.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "ipoib/run_folder.hpp"

namespace ipoib::control {

inline constexpr const char* kControlSocket = "control";
inline constexpr const char* kReadSocket = "read";
inline constexpr const char* kCaptureSocket = "capture";
inline constexpr const char* kHandoverSocket = "handover";

/// The users who may use the sockets besides root and the daemon's user.
struct SocketAccess {
  std::optional<gid_t> group;  ///< its members may change things
  std::string group_name;
  bool is_private = false;  ///< only those who may change things may read

  /// "only root", or "only root and members of the group ...".
  [[nodiscard]] std::string allowed() const;
  friend bool operator==(const SocketAccess&, const SocketAccess&) = default;
};

/// The inode number of the calling thread's network namespace.
[[nodiscard]] Result<std::uint64_t> own_network_namespace();
/// The name of a namespace's folder in the run folder.
[[nodiscard]] std::string namespace_folder(std::uint64_t inode);

/// The folder of one interface, with listening sockets, until the destructor removes it.
class SocketFolder {
 public:
  /// Takes the folder, also that of a daemon that has died. Fails with EBUSY if another process has
  /// it.
  [[nodiscard]] static Result<SocketFolder> take(std::uint64_t network_namespace,
                                                 const std::string& interface,
                                                 const SocketAccess& access);
  SocketFolder(SocketFolder&&) noexcept = default;
  SocketFolder& operator=(SocketFolder&&) = delete;
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  ~SocketFolder();

  /// Listening sockets that do not block. Each can be taken once; the second one may be empty.
  [[nodiscard]] FileDescriptor take_control_socket() { return std::move(control_); }
  [[nodiscard]] FileDescriptor take_read_socket() { return std::move(read_); }
  /// Creates the socket for captures, of the type SOCK_SEQPACKET.
  [[nodiscard]] Result<FileDescriptor> listen_for_captures(const SocketAccess& access);
  /// Creates the socket for handovers, of the type SOCK_SEQPACKET. Who may use it gets the
  /// descriptor of the TUN, so a group that may make changes may not.
  [[nodiscard]] Result<FileDescriptor> listen_for_handover();

 private:
  SocketFolder(Folder above, Folder folder, FileDescriptor lock)
      : above_(std::move(above)), folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] static Result<SocketFolder> try_take(std::uint64_t network_namespace,
                                                     const std::string& interface);
  [[nodiscard]] Result<void> listen(const SocketAccess& access);

  Folder above_;
  Folder folder_;
  FileDescriptor lock_;
  FileDescriptor control_;
  FileDescriptor read_;
};

/// Connects to the sockets for handovers of all interfaces in the network namespace of the calling
/// thread that have a daemon. Leaves out those that this process may not use.
[[nodiscard]] std::vector<FileDescriptor> connect_for_handover();

/// Removes the folders of daemons that have died, in all network namespaces. Creates none.
void remove_unused_socket_folders();

/// Whether a daemon lives that has its sockets in this run folder. Needs the rights of its user.
[[nodiscard]] bool has_living_daemon(const Folder& run_folder);

}  // namespace ipoib::control
