#include "softib/fabric/shared_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace softib::fabric {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kFileFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOpenToAll = 0666;

Error trouble_with(const std::string& name, int code) {
  return Error{code, name + ": " + std::strerror(code)};
}

Result<FileDescriptor> make(int folder, const std::string& name) {
  FileDescriptor file(::openat(folder, name.c_str(), kFileFlags | O_CREAT | O_EXCL, kOpenToAll));
  if (!file || ::fchmod(file.get(), kOpenToAll) != 0) return trouble_with(name, errno);
  return file;
}

Result<FileDescriptor> open_existing(int folder, const std::string& name) {
  FileDescriptor file(::openat(folder, name.c_str(), kFileFlags));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return errno == ELOOP ? Error{EPERM, name + " is a link"} : trouble_with(name, errno);
  }
  if (status.st_nlink == 0) return trouble_with(name, ENOENT);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) {
    return Error{EPERM, name + " is no regular file of one name"};
  }
  return file;
}

}  // namespace

Result<FileDescriptor> open_folder(const std::string& path) { return open_folder(AT_FDCWD, path); }

Result<FileDescriptor> open_folder(int folder, const std::string& name) {
  FileDescriptor opened(::openat(folder, name.c_str(), kFolderFlags));
  if (!opened) return trouble_with(name, errno);
  return opened;
}

Result<void> make_folder(int folder, const std::string& name, mode_t mode) {
  if (::mkdirat(folder, name.c_str(), mode) != 0) {
    const int code = errno;
    struct stat status {};
    const bool is_there = code == EEXIST && ::fstatat(folder, name.c_str(), &status, 0) == 0 &&
                          S_ISDIR(status.st_mode);
    return is_there ? Result<void>() : trouble_with("cannot make the folder " + name, code);
  }
  const FileDescriptor made(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), mode) != 0)
    return trouble_with("cannot set the mode of " + name, errno);
  return {};
}

Result<FileDescriptor> open_shared(int folder, const std::string& name, IfMissing if_missing) {
  // Others make and remove it at the same time.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto file = open_existing(folder, name);
    if (file || file.error().code != ENOENT || if_missing == IfMissing::fail) return file;
    file = make(folder, name);
    if (file || file.error().code != EEXIST) return file;
  }
  return Error{EBUSY, name + " comes and goes"};
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
    const bool is_there = code == EEXIST &&
                          ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                          S_ISFIFO(status.st_mode);
    return is_there ? Result<void>() : trouble_with("cannot make the pipe " + name, code);
  }
  if (::fchmodat(folder, name.c_str(), kOpenToAll, 0) != 0) return trouble_with(name, errno);
  return {};
}

/// A pipe opens for writing without waiting when there is a reader, and only then (fifo(7)).
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
