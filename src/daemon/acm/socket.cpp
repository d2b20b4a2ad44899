#include "daemon/acm/socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "ipoib/peer_process.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::daemon::acm {

namespace {

Error failure(const std::string& path, int code) {
  return {code, path + ": " + std::generic_category().message(code)};
}

/// The process that listens at an address, if one does.
std::optional<pid_t> listener_at(const UnixPath& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // EAGAIN: its queue of connections is full.
  if (::connect(socket.get(), path.address(), UnixPath::size()) != 0) {
    return errno == EAGAIN ? std::optional<pid_t>(0) : std::nullopt;
  }
  const auto peer = peer_process(socket.get());
  return peer ? peer->pid : 0;
}

Error taken(const std::string& path, pid_t by) {
  return {EADDRINUSE, path + ": process " + std::to_string(by) + " listens there"};
}

/// The name that programs know, and where it leads.
struct Link {
  std::string name;
  std::string target;
};

/// Returns nullopt if the run folder is not below `system`.
std::optional<Link> link_to(const std::string& run_folder, const std::string& system) {
  const std::string above = system + "/";
  if (!run_folder.starts_with(above)) return std::nullopt;
  return Link{above + kSocket, run_folder.substr(above.size()) + "/" + kSocket};
}

bool exists(const Link& link) {
  std::string target(link.target.size() + 1, '\0');
  const auto size = ::readlink(link.name.c_str(), target.data(), target.size());
  return size >= 0 && target.substr(0, static_cast<std::size_t>(size)) == link.target;
}

}  // namespace

std::vector<control::Counter> as_values(const Counters& counters) {
  return {{"acm_clients", counters.clients},          {"acm_clients_refused", counters.refused},
          {"acm_requests", counters.requests},        {"acm_bad_requests", counters.bad_requests},
          {"acm_requests_delayed", counters.delayed}, {"acm_requests_failed", counters.failed}};
}

Result<Socket> Socket::open(const control::SocketAccess& access, pid_t predecessor) {
  auto folder = open_run_folder();
  if (!folder) return folder.error();
  const std::string name = folder->path + "/" + kSocket;
  const auto path = UnixPath::in(folder->fd.get(), kSocket);
  if (!path) return path.error();
  const auto by = listener_at(*path);
  if (by && (*by != predecessor || predecessor == 0)) return taken(name, *by);
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  FileDescriptor socket(::socket(AF_UNIX, kType, 0));
  // Nobody else can create names in the folder.
  if (::unlinkat(folder->fd.get(), kSocket, 0) != 0 && errno != ENOENT) return failure(name, errno);
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  const mode_t mode = access.is_private ? (access.group ? 0660 : 0600) : 0666;
  struct stat status {};
  if (!socket || ::bind(socket.get(), path->address(), UnixPath::size()) != 0 ||
      (access.group &&
       ::fchownat(folder->fd.get(), kSocket, kSameUser, *access.group, AT_SYMLINK_NOFOLLOW) != 0) ||
      ::fchmodat(folder->fd.get(), kSocket, mode, 0) != 0 ||
      ::fstatat(folder->fd.get(), kSocket, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return failure(name, errno);
  }
  return Socket(std::move(*folder), std::move(socket), status.st_ino);
}

Socket::~Socket() {
  if (!listener_) return;
  struct stat status {};
  const int folder = folder_.fd.get();
  if (::fstatat(folder, kSocket, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == inode_) {
    ::unlinkat(folder, kSocket, 0);
    const auto link = link_to(folder_.path, kSystemFolder);
    if (link && exists(*link)) ::unlink(link->name.c_str());
  }
}

Result<void> link_socket(const std::string& run_folder, const std::string& system) {
  const auto link = link_to(run_folder, system);
  if (!link || exists(*link)) return {};
  if (const auto path = UnixPath::of(link->name)) {
    if (const auto by = listener_at(*path)) return taken(link->name, *by);
  }
  const char* const name = link->name.c_str();
  if ((::unlink(name) != 0 && errno != ENOENT) || ::symlink(link->target.c_str(), name) != 0) {
    return failure(link->name, errno);
  }
  return {};
}

}  // namespace ipoib::daemon::acm
