#include "softib/fabric/shared_file.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "ipoib/unix_path.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
/// Without O_NONBLOCK, whoever has a lease on a file (fcntl(2), F_SETLEASE) delays all others.
constexpr int kFileFlags = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOpenToAll = 0666;

Error failed(const std::string& name, int code) {
  return Error{code, name + ": " + std::strerror(code)};
}

Result<FileDescriptor> create_new(int folder, const std::string& name) {
  FileDescriptor file(::openat(folder, name.c_str(), kFileFlags | O_CREAT | O_EXCL, kOpenToAll));
  if (!file || ::fchmod(file.get(), kOpenToAll) != 0) return failed(name, errno);
  return file;
}

Result<FileDescriptor> open_existing(int folder, const std::string& name) {
  FileDescriptor file(::openat(folder, name.c_str(), kFileFlags));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return errno == ELOOP
               ? Error{EPERM, name + " is a symbolic link, which softib does not follow: remove it"}
               : failed(name, errno);
  }
  if (status.st_nlink == 0) return failed(name, ENOENT);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) {
    return Error{EPERM, name + " is not a regular file with a single link: remove it"};
  }
  return file;
}

/// Opens a name in a folder without using it: a socket or a pipe with a single link.
Result<FileDescriptor> open_name(int folder, const std::string& name, mode_t type) {
  FileDescriptor file(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return failed(name, errno);
  if ((status.st_mode & S_IFMT) != type || status.st_nlink != 1) {
    const std::string wanted = type == S_IFSOCK ? "socket" : "pipe";
    return Error{EPERM, name + " is not a " + wanted + " with a single link: remove it"};
  }
  return file;
}

/// Sets mode 0666 whatever the umask. Another user may have replaced the name meanwhile.
Result<void> open_to_all(int folder, const std::string& name, mode_t type) {
  const auto file = open_name(folder, name, type);
  if (!file) return file.error();
  const auto path = "/proc/self/fd/" + std::to_string(file->get());
  if (::chmod(path.c_str(), kOpenToAll) != 0) return failed(name, errno);
  return {};
}

}  // namespace

Result<FileDescriptor> open_folder(const std::string& path) { return open_folder(AT_FDCWD, path); }

Result<FileDescriptor> open_folder(int folder, const std::string& name) {
  FileDescriptor opened(::openat(folder, name.c_str(), kFolderFlags));
  if (!opened) return failed(name, errno);
  return opened;
}

Result<void> make_folder(int folder, const std::string& name, mode_t mode) {
  if (::mkdirat(folder, name.c_str(), mode) != 0) {
    const int code = errno;
    struct stat status {};
    const bool exists = code == EEXIST && ::fstatat(folder, name.c_str(), &status, 0) == 0 &&
                        S_ISDIR(status.st_mode);
    return exists ? Result<void>() : failed("cannot create the folder " + name, code);
  }
  const FileDescriptor made(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), mode) != 0)
    return failed("cannot set the mode of " + name, errno);
  return {};
}

Result<FileDescriptor> open_shared(int folder, const std::string& name, IfMissing if_missing) {
  // Other processes may create and remove the file at the same time.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto file = open_existing(folder, name);
    if (file || file.error().code != ENOENT || if_missing == IfMissing::fail) return file;
    file = create_new(folder, name);
    if (file || file.error().code != EEXIST) return file;
  }
  return Error{EBUSY, name + " keeps being created and removed: try again"};
}

Result<FileDescriptor> open_shared(const std::string& path, IfMissing if_missing) {
  const auto slash = path.rfind('/');
  const auto folder = open_folder(path.substr(0, slash));
  if (!folder) return folder.error();
  return open_shared(folder->get(), path.substr(slash + 1), if_missing);
}

Result<void> make_pipe(int folder, const std::string& name) {
  if (::mkfifoat(folder, name.c_str(), kOpenToAll) != 0) {
    const int code = errno;
    struct stat status {};
    const bool exists = code == EEXIST &&
                        ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISFIFO(status.st_mode);
    return exists ? Result<void>() : failed("cannot create the pipe " + name, code);
  }
  return open_to_all(folder, name, S_IFIFO);
}

Result<void> open_socket_to_all(int folder, const std::string& name) {
  return open_to_all(folder, name, S_IFSOCK);
}

Result<FileDescriptor> open_socket(int folder, const std::string& name) {
  return open_name(folder, name, S_IFSOCK);
}

int connect_socket(int socket, const FileDescriptor& opened) {
  const auto path = ipoib::UnixPath::of("/proc/self/fd/" + std::to_string(opened.get()));
  if (!path) return path.error().code;
  const bool connected = ::connect(socket, path->address(), ipoib::UnixPath::size()) == 0;
  return connected ? 0 : errno;
}

/// Opening a pipe for writing without blocking succeeds only when there is a reader (fifo(7)).
bool has_reader(int folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISFIFO(status.st_mode)) {
    return false;
  }
  const FileDescriptor pipe(
      ::openat(folder, name.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  return bool(pipe);
}

bool is_named(int file, int folder, const std::string& name) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 &&
         ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace softib::fabric
