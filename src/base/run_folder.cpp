#include "ipoib/run_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace ipoib {

namespace {

/// The usual run folder. Its parent belongs to root, so root has chosen its owner.
constexpr const char* kSystemFolder = "/run/ipoibd";
constexpr mode_t kFolderMode = 0755;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Folders below the run folder that may contain others.
constexpr int kLevels = 3;

Error failed_at(const std::string& path, int code) {
  return Error(code, path + ": " + std::generic_category().message(code));
}

/// A new folder has exactly kFolderMode, whatever the umask.
Result<Folder> open_at(int above, const std::string& name, std::string path, IfMissing if_missing) {
  const bool may_create = if_missing == IfMissing::create;
  const bool is_new = may_create && ::mkdirat(above, name.c_str(), kFolderMode) == 0;
  if (may_create && !is_new && errno != EEXIST) return failed_at(path, errno);
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

/// The folders of other users, beside kSystemFolder.
std::string folder_of(uid_t user) {
  return std::string(kSystemFolder) + "." + std::to_string(user);
}

uid_t owner_of(const Folder& folder) {
  struct stat status {};
  return ::fstat(folder.fd.get(), &status) == 0 ? status.st_uid : static_cast<uid_t>(-1);
}

/// Whether the folder is that of a user other than the owner of kSystemFolder: its name then ends
/// with a number.
bool is_of_a_user(std::string_view name) {
  const auto point = name.rfind('.');
  const auto number = name.substr(point + 1);
  return name.substr(0, point) == "ipoibd" && !number.empty() &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Nobody but root creates names in /run.
bool is_in_system_folder(const std::string& path) {
  return path == kSystemFolder || path.starts_with(std::string(kSystemFolder) + ".");
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
  const std::unique_ptr<DIR, Close> names(
      ::fdopendir(::fcntl(folder.fd.get(), F_DUPFD_CLOEXEC, 0)));
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

std::vector<std::string> run_folders(const std::string& system) {
  if (auto given = environment(kRunFolderVariable); !given.empty()) return {std::move(given)};
  std::vector<std::string> out{system + "/ipoibd"};
  if (const std::unique_ptr<DIR, Close> names{::opendir(system.c_str())}) {
    while (const auto* const entry = ::readdir(names.get())) {
      if (is_of_a_user(entry->d_name)) out.push_back(system + "/" + entry->d_name);
    }
  }
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && is_own_folder(runtime)) out.push_back(runtime + "/ipoibd");
  return out;
}

Result<Folder> open_run_folder(IfMissing if_missing) {
  std::optional<Folder> usable;
  std::optional<Error> first;
  for (const auto& path : run_folders()) {
    auto folder = open_run_folder_at(path, if_missing);
    if (folder && owner_of(*folder) == ::geteuid()) return folder;
    if (folder && !usable) usable = std::move(*folder);
    if (!folder && !first) first = folder.error();
  }
  if (usable) return std::move(*usable);
  if (first->code == EMFILE || first->code == ENFILE) return *first;  // no folder would help
  return Error(first->code, first->message + "; set IPOIBD_DIR to a folder of this user");
}

Result<Folder> open_folder(const Folder& above, const std::string& name, IfMissing if_missing) {
  return open_at(above.fd.get(), name, above.path + "/" + name, if_missing);
}

Result<Folder> open_run_folder_at(const std::string& path, IfMissing if_missing) {
  auto folder = open_at(AT_FDCWD, path, path, if_missing);
  if (!folder) return folder;
  const uid_t owner = owner_of(*folder);
  if (!is_in_system_folder(path) && owner != 0 && owner != ::geteuid()) {
    return Error(EPERM, path + ": belongs to user " + std::to_string(owner));
  }
  if (::faccessat(folder->fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return failed_at(path, errno);
  return folder;
}

Result<Folder> give_run_folder(uid_t owner, const std::function<bool(const Folder&)>& is_in_use) {
  auto folder = open_run_folder_at(run_folders().front(), IfMissing::create);
  if (!folder) return folder.error();
  const bool is_others = owner_of(*folder) != owner && folder->path == kSystemFolder;
  if (is_others && is_in_use(*folder)) {
    folder = open_run_folder_at(folder_of(owner), IfMissing::create);
    if (!folder) return folder.error();
  }
  if (::fchown(folder->fd.get(), owner, static_cast<gid_t>(-1)) != 0) {
    return failed_at(folder->path, errno);
  }
  if (auto given = give_contents(*folder, owner, kLevels); !given) return given.error();
  return folder;
}

}  // namespace ipoib
