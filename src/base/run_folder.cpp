#include "ipoib/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>

namespace ipoib {

namespace {

/// Its parent belongs to root, so whoever owns it was chosen by root.
constexpr const char* kSystemFolder = "/run/ipoibd";
constexpr mode_t kFolderMode = 0755;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Folders below the run folder that may contain others.
constexpr int kLevels = 3;

Error failed_at(const std::string& path, int code) {
  return Error(code, path + ": " + std::generic_category().message(code));
}

/// Opens or creates a folder with exactly kFolderMode, whatever the umask.
Result<Folder> open_at(int above, const std::string& name, std::string path) {
  const bool is_new = ::mkdirat(above, name.c_str(), kFolderMode) == 0;
  if (!is_new && errno != EEXIST) return failed_at(path, errno);
  FileDescriptor fd(::openat(above, name.c_str(), kFolderFlags));
  if (!fd && (errno == ELOOP || errno == ENOTDIR)) {
    return Error(EPERM, path + ": is not a folder, or is a symbolic link");
  }
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return failed_at(path, errno);
  if (is_new && ::fchmod(fd.get(), kFolderMode) != 0) return failed_at(path, errno);
  if (!is_new && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(EPERM, path + ": other users may write to it; chmod go-w " + path);
  }
  return Folder{std::move(path), std::move(fd)};
}

/// Opens one of run_folders() to create files in it.
Result<Folder> open_top(const std::string& path) {
  auto folder = open_at(AT_FDCWD, path, path);
  if (!folder) return folder;
  struct stat status {};
  if (::fstat(folder->fd.get(), &status) != 0) return failed_at(path, errno);
  if (path != kSystemFolder && status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return Error(EPERM, path + ": belongs to user " + std::to_string(status.st_uid));
  }
  if (::faccessat(folder->fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) return failed_at(path, errno);
  return folder;
}

std::string environment(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_own_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// Changes the owner of everything in the folder; a name that disappears meanwhile is no error.
Result<void> give_contents(const Folder& folder, uid_t owner, int levels) {
  const std::unique_ptr<DIR, Close> names(::fdopendir(::fcntl(folder.fd.get(), F_DUPFD_CLOEXEC, 0)));
  if (!names) return failed_at(folder.path, errno);
  for (const dirent* entry = nullptr; (entry = ::readdir(names.get())) != nullptr;) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = folder.path + "/" + name;
    const FileDescriptor file(
        ::openat(folder.fd.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) continue;
    const bool is_folder = S_ISDIR(status.st_mode);
    if (!is_folder && status.st_nlink != 1) continue;
    if (::fchownat(file.get(), "", owner, static_cast<gid_t>(-1), AT_EMPTY_PATH) != 0) {
      return failed_at(path, errno);
    }
    if (!is_folder || levels == 0) continue;
    Folder below{path, FileDescriptor(::openat(folder.fd.get(), name.c_str(), kFolderFlags))};
    if (!below.fd) continue;
    if (auto given = give_contents(below, owner, levels - 1); !given) return given;
  }
  return {};
}

}  // namespace

std::vector<std::string> run_folders() {
  if (auto given = environment(kRunFolderVariable); !given.empty()) return {std::move(given)};
  std::vector<std::string> out{kSystemFolder};
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && is_own_folder(runtime)) out.push_back(runtime + "/ipoibd");
  return out;
}

Result<Folder> open_run_folder() {
  std::optional<Error> first;
  for (const auto& path : run_folders()) {
    auto folder = open_top(path);
    if (folder) return folder;
    if (!first) first = folder.error();
  }
  return *first;
}

Result<Folder> open_folder(const Folder& above, const std::string& name) {
  return open_at(above.fd.get(), name, above.path + "/" + name);
}

Result<void> give_run_folder(uid_t owner) {
  const auto folder = open_run_folder();
  if (!folder) return folder.error();
  if (::fchown(folder->fd.get(), owner, static_cast<gid_t>(-1)) != 0) {
    return failed_at(folder->path, errno);
  }
  return give_contents(*folder, owner, kLevels);
}

}  // namespace ipoib
