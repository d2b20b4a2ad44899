#include "control/socket_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ipoib/refuse_descriptors.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::control {

namespace {

constexpr const char* kLock = "lock";
constexpr std::string_view kNamespacePrefix = "net-";

/// How often to try to take a folder that other processes remove again and again.
constexpr int kTries = 10;

/// A daemon locks the first byte of the lock file while it lives. Whoever removes a folder, its own
/// or that of a dead daemon, locks both bytes for a moment.
constexpr off_t kLife = 1;
constexpr off_t kRemoval = 2;

Error failure(const Folder& folder, const std::string& name, int code) {
  return Error(code, folder.path + "/" + name + ": " + std::generic_category().message(code));
}

/// A lock that belongs to the open file (fcntl(2)).
struct flock lock_of(short type, off_t start, off_t bytes) {
  struct flock how {};
  how.l_type = type;
  how.l_whence = SEEK_SET;
  how.l_start = start;
  how.l_len = bytes;
  return how;
}

bool lock(int file, off_t bytes) {
  auto how = lock_of(F_WRLCK, 0, bytes);
  return ::fcntl(file, F_OFD_SETLK, &how) == 0;
}

/// Waits for the lock of the second byte, whose holder only removes some names.
void wait_for_removal(int file) {
  auto how = lock_of(F_RDLCK, kLife, kRemoval - kLife);
  (void)::fcntl(file, F_OFD_SETLKW, &how);
  how.l_type = F_UNLCK;
  (void)::fcntl(file, F_OFD_SETLK, &how);
}

bool lock_for_life(int file) {
  if (lock(file, kLife)) return true;
  wait_for_removal(file);
  return lock(file, kLife);
}

bool is_linked(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

/// Writes the process id, always of the same size, to replace that of another process.
void write_holder(int file) {
  std::string line = std::to_string(::getpid());
  line.resize(15, ' ');
  line += '\n';
  (void)!::pwrite(file, line.data(), line.size(), 0);
}

std::string holder_of(int file) {
  std::array<char, 16> text{};
  int pid = 0;
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size > 0) std::from_chars(text.data(), text.data() + size, pid);
  return pid > 0 ? " (process " + std::to_string(pid) + ")" : "";
}

/// Opens the lock file, which only the daemon's user may open: whoever may read a file can lock it.
FileDescriptor open_lock(const Folder& folder, int flags) {
  constexpr mode_t kOwner = 0600;
  return FileDescriptor(
      ::openat(folder.fd.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, kOwner));
}

/// Removes a folder. Requires the lock for kRemoval. The folder stays if others have created names
/// in it.
void remove(const Folder& above, const Folder& folder) {
  for (const char* const name :
       {kControlSocket, kReadSocket, kCaptureSocket, kHandoverSocket, kLock}) {
    ::unlinkat(folder.fd.get(), name, 0);
  }
  const auto name = folder.path.substr(folder.path.rfind('/') + 1);
  ::unlinkat(above.fd.get(), name.c_str(), AT_REMOVEDIR);
  ::rmdir(above.path.c_str());
}

/// Creates a listening socket. Its rights are complete before it listens, and nobody can connect
/// earlier.
Result<FileDescriptor> listen_at(const Folder& folder, const char* name, mode_t mode,
                                 std::optional<gid_t> group, int type = SOCK_STREAM) {
  FileDescriptor socket(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return failure(folder, name, errno);
  refuse_descriptors(socket.get());
  if (::unlinkat(folder.fd.get(), name, 0) != 0 && errno != ENOENT) {
    return failure(folder, name, errno);
  }
  const auto path = UnixPath::of(folder.path + "/" + name);
  if (!path) return path.error();
  constexpr uid_t kSameUser = static_cast<uid_t>(-1);
  if (::bind(socket.get(), path->address(), UnixPath::size()) != 0 ||
      (group && ::fchownat(folder.fd.get(), name, kSameUser, *group, AT_SYMLINK_NOFOLLOW) != 0) ||
      ::fchmodat(folder.fd.get(), name, mode, 0) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    return failure(folder, name, errno);
  }
  return socket;
}

std::vector<std::string> names_in(const Folder& folder) {
  struct Close {
    void operator()(DIR* names) const { ::closedir(names); }
  };
  std::vector<std::string> out;
  const std::unique_ptr<DIR, Close> names(::opendir(folder.path.c_str()));
  if (!names) return out;
  while (const auto* const entry = ::readdir(names.get())) {
    if (entry->d_name[0] != '.') out.emplace_back(entry->d_name);
  }
  return out;
}

/// Calls `visit` with each folder of an interface and the one above it, until it returns false.
template <class Visit>
void for_each_interface(const Folder& run, Visit visit) {
  for (const auto& name : names_in(run)) {
    if (!name.starts_with(kNamespacePrefix)) continue;
    const auto above = open_folder(run, name, IfMissing::fail);
    if (!above) continue;
    for (const auto& interface : names_in(*above)) {
      const auto folder = open_folder(*above, interface, IfMissing::fail);
      if (folder && !visit(*above, *folder)) return;
    }
  }
}

}  // namespace

std::string SocketAccess::allowed() const {
  return group ? "only root and members of the group " + group_name : "only root";
}

Result<std::uint64_t> own_network_namespace() {
  constexpr const char* kOwn = "/proc/thread-self/ns/net";
  struct stat status {};
  if (::stat(kOwn, &status) == 0) return std::uint64_t{status.st_ino};
  return Error(errno, std::string(kOwn) + ": " + std::generic_category().message(errno));
}

std::string namespace_folder(std::uint64_t inode) {
  return std::string(kNamespacePrefix) + std::to_string(inode);
}

Result<SocketFolder> SocketFolder::take(std::uint64_t network_namespace,
                                        const std::string& interface, const SocketAccess& access) {
  for (int tries = 1;; ++tries) {
    auto taken = try_take(network_namespace, interface);
    if (taken) {
      if (auto listens = taken->listen(access); !listens) return listens.error();
      return taken;
    }
    // The folder was removed before it was locked.
    if (tries == kTries || taken.error().code != ENOENT) return taken;
  }
}

Result<SocketFolder> SocketFolder::try_take(std::uint64_t network_namespace,
                                            const std::string& interface) {
  const auto run = open_run_folder();
  if (!run) return run.error();
  auto above = open_folder(*run, namespace_folder(network_namespace));
  if (!above) return above.error();
  auto folder = open_folder(*above, interface);
  if (!folder) return folder.error();
  FileDescriptor file = open_lock(*folder, O_CREAT);
  if (!file) return failure(*folder, kLock, errno);
  if (!lock_for_life(file.get())) {
    return Error(EBUSY, "another ipoibd runs this interface" + holder_of(file.get()));
  }
  if (!is_linked(file.get())) return failure(*folder, kLock, ENOENT);
  write_holder(file.get());
  return SocketFolder(std::move(*above), std::move(*folder), std::move(file));
}

Result<void> SocketFolder::listen(const SocketAccess& access) {
  const auto listen_here = [&](const char* name, mode_t others, FileDescriptor& to) {
    const mode_t mode = 0600 | (access.group ? 0060U : 0U) | others;
    auto socket = listen_at(folder_, name, mode, access.group);
    if (socket) to = std::move(*socket);
    return socket ? Result<void>() : socket.error();
  };
  if (auto listens = listen_here(kControlSocket, 0, control_); !listens) return listens;
  if (access.is_private) {
    ::unlinkat(folder_.fd.get(), kReadSocket, 0);  // of a daemon that has died
    return {};
  }
  return listen_here(kReadSocket, 0066, read_);
}

Result<FileDescriptor> SocketFolder::listen_for_captures(const SocketAccess& access) {
  const mode_t mode = 0600 | (access.group ? 0060U : 0U);
  return listen_at(folder_, kCaptureSocket, mode, access.group, SOCK_SEQPACKET);
}

Result<FileDescriptor> SocketFolder::listen_for_handover() {
  return listen_at(folder_, kHandoverSocket, 0600, {}, SOCK_SEQPACKET);
}

SocketFolder::~SocketFolder() {
  if (!lock_) return;
  (void)lock(lock_.get(), kRemoval);
  remove(above_, folder_);
}

std::vector<FileDescriptor> connect_for_handover() {
  std::vector<FileDescriptor> out;
  const auto run = open_run_folder();
  const auto own = own_network_namespace();
  if (!run || !own) return out;
  const std::string above = run->path + "/" + namespace_folder(*own);
  for (const auto& interface : names_in({above, {}})) {
    const auto path = UnixPath::of(above + "/" + interface + "/" + kHandoverSocket);
    FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!path || !socket) continue;
    if (::connect(socket.get(), path->address(), UnixPath::size()) == 0) {
      out.push_back(std::move(socket));
    }
  }
  return out;
}

void remove_unused_socket_folders() {
  for (const auto& path : run_folders()) {
    const auto run = open_run_folder_at(path, IfMissing::fail);
    if (!run) continue;
    for_each_interface(*run, [](const Folder& above, const Folder& folder) {
      // Without a lock file, a daemon may be about to create it.
      const auto file = open_lock(folder, 0);
      if (file && lock(file.get(), kRemoval) && is_linked(file.get())) remove(above, folder);
      return true;
    });
    for (const auto& name : names_in(*run)) {
      if (name.starts_with(kNamespacePrefix)) ::unlinkat(run->fd.get(), name.c_str(), AT_REMOVEDIR);
    }
  }
}

bool has_living_daemon(const Folder& run_folder) {
  bool found = false;
  for_each_interface(run_folder, [&](const Folder& /*above*/, const Folder& folder) {
    const auto file = open_lock(folder, 0);
    auto how = lock_of(F_WRLCK, 0, kLife);
    found = file && ::fcntl(file.get(), F_OFD_GETLK, &how) == 0 && how.l_type != F_UNLCK;
    return !found;
  });
  return found;
}

}  // namespace ipoib::control
