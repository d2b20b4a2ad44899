// The C functions by which programs look at files by their paths. Those of the view are answered
// (process_view.hpp); for others the next definition is called, and no more is done than to look
// for a word in the path, so that functions that are async-signal-safe stay so. open(2) is in
// ucma/interpose.cpp, which asks the view.
#undef _FORTIFY_SOURCE  // it would define some of these functions
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "ipoib/file_descriptor.hpp"
#include "softib/core/next_function.hpp"
#include "softib/core/no_cancellation.hpp"
#include "softib/view/open_folders.hpp"
#include "softib/view/process_view.hpp"

#define SOFTIB_ABI extern "C" __attribute__((visibility("default")))

// Both are one type for programs of 64 bits, so one definition serves functions of both names.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
static_assert(sizeof(dirent) == sizeof(dirent64));

namespace {

namespace view = softib::view;
using softib::NextFunction;

int fail(int error) {
  errno = error;
  return -1;
}

/// Calls `own` with the path if it is one of the view, else `next`. A relative path is one below
/// `folder`. `failed` is returned, with ENOMEM, if memory is exhausted.
template <class Own, class Next, class Value>
Value by_path_at(int folder, const char* path, Value failed, Own own, Next next) {
  try {
    if (const auto ours = view::own_path_at(folder, path)) {
      const softib::NoCancellation whole;
      return own(*ours);
    }
  } catch (const std::exception&) {
    errno = ENOMEM;
    return failed;
  }
  return next();
}

template <class Own, class Next, class Value>
Value by_path(const char* path, Value failed, Own own, Next next) {
  return by_path_at(AT_FDCWD, path, failed, own, next);
}

/// The path of a call that with AT_EMPTY_PATH is about the folder itself.
const char* or_folder(const char* path, int flags) {
  const bool is_folder = (flags & AT_EMPTY_PATH) != 0 && path != nullptr && *path == '\0';
  return is_folder ? "." : path;
}

/// As by_path_at(), for stat(2) in all of its forms.
template <class Status, class Next>
int stat_at(int folder, const char* path, int flags, Status* status, Next next) {
  return by_path_at(
      folder, or_folder(path, flags), -1,
      [&](const std::string& own) {
        struct stat found {};
        const int done = view::stat_file(own, found);
        if (done == 0) std::memcpy(status, &found, sizeof found);
        return done;
      },
      next);
}
template <class Status, class Next>
int stat_by_path(const char* path, Status* status, Next next) {
  return stat_at(AT_FDCWD, path, 0, status, next);
}

int fill(const struct stat& from, struct statx& to) {
  to = {};
  to.stx_mask = STATX_BASIC_STATS;
  to.stx_blksize = static_cast<std::uint32_t>(from.st_blksize);
  to.stx_nlink = static_cast<std::uint32_t>(from.st_nlink);
  to.stx_mode = static_cast<std::uint16_t>(from.st_mode);
  to.stx_ino = from.st_ino;
  to.stx_size = static_cast<std::uint64_t>(from.st_size);
  to.stx_rdev_major = major(from.st_rdev);
  to.stx_rdev_minor = minor(from.st_rdev);
  return 0;
}

int read_link(const std::string& path) {
  struct stat found {};
  return view::stat_file(path, found) == 0 ? fail(EINVAL) : -1;  // no symbolic link
}

char* real_path(const std::string& path, char* resolved) {
  struct stat found {};
  if (view::stat_file(path, found) != 0) return nullptr;
  if (path.size() >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return nullptr;
  }
  return resolved == nullptr ? ::strdup(path.c_str()) : std::strcpy(resolved, path.c_str());
}

std::FILE* open_stream(const std::string& path, const char* mode) {
  const bool writes = std::strpbrk(mode, "wa+") != nullptr;
  const int close_on_exec = std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  ipoib::FileDescriptor file(view::open_file(path, (writes ? O_RDWR : O_RDONLY) | close_on_exec));
  std::FILE* const stream = file ? ::fdopen(file.get(), "r") : nullptr;
  if (stream != nullptr) (void)file.release();
  return stream;
}

/// Fails with ENOENT or ENOTDIR if the path is no folder.
bool is_folder(const view::Tree& tree, const std::string& path) {
  const auto* const entry = tree.find(path);
  if (entry != nullptr && entry->kind == view::Entry::Kind::folder) return true;
  errno = entry == nullptr ? ENOENT : ENOTDIR;
  return false;
}

DIR* open_view_folder(const std::string& path) {
  const view::Tree tree = view::process_tree();
  return is_folder(tree, path) ? view::keep({path, view::entries_of(tree, path)}) : nullptr;
}

/// fdopendir(3), which takes the descriptor over if it succeeds.
DIR* take_view_folder(const std::string& path, int fd) {
  DIR* const stream = open_view_folder(path);
  if (stream != nullptr) view::open_folder(stream)->fd.reset(fd);
  return stream;
}

int descriptor_of(view::OpenFolder& folder) {
  if (!folder.fd) folder.fd.reset(view::open_file(folder.path, O_DIRECTORY | O_CLOEXEC));
  return folder.fd.get();
}

dirent* read_view_folder(view::OpenFolder& folder) {
  return folder.next < folder.entries.size() ? &folder.entries[folder.next++] : nullptr;
}

/// readdir_r(3), for entries of either name.
template <class Dirent>
int read_into(view::OpenFolder& folder, Dirent* entry, Dirent** result) {
  const auto* const found = read_view_folder(folder);
  if (found != nullptr) std::memcpy(entry, found, sizeof *entry);
  *result = found == nullptr ? nullptr : entry;
  return 0;
}

/// scandir(3), for entries of either name.
template <class Dirent>
int scan(const std::string& path, Dirent*** list, int (*filter)(const Dirent*),
         int (*compare)(const Dirent**, const Dirent**)) {
  const view::Tree tree = view::process_tree();
  if (!is_folder(tree, path)) return -1;
  auto entries = view::entries_of(tree, path);
  auto** const found = static_cast<Dirent**>(std::calloc(entries.size(), sizeof(Dirent*)));
  if (found == nullptr) return fail(ENOMEM);
  int count = 0;
  for (auto& each : entries) {
    auto* const entry = reinterpret_cast<Dirent*>(&each);
    if (filter != nullptr && filter(entry) == 0) continue;
    found[count] = static_cast<Dirent*>(std::malloc(sizeof(Dirent)));
    if (found[count] != nullptr) std::memcpy(found[count++], entry, sizeof(Dirent));
  }
  if (compare != nullptr) {
    std::sort(found, found + count,
              [&](const Dirent* a, const Dirent* b) { return compare(&a, &b) < 0; });
  }
  *list = found;
  return count;
}

using PathStat = int(const char*, struct stat*);
using PathStat64 = int(const char*, struct stat64*);
using PathXStat = int(int, const char*, struct stat*);
using PathXStat64 = int(int, const char*, struct stat64*);
using StatAt = int(int, const char*, struct stat*, int);
using StatAt64 = int(int, const char*, struct stat64*, int);
using XStatAt = int(int, int, const char*, struct stat*, int);
using XStatAt64 = int(int, int, const char*, struct stat64*, int);
using StatX = int(int, const char*, int, unsigned, struct statx*);
using Access = int(const char*, int);
using AccessAt = int(int, const char*, int, int);
using ReadLink = ssize_t(const char*, char*, std::size_t);
using ReadLinkAt = ssize_t(int, const char*, char*, std::size_t);
using RealPath = char*(const char*, char*);
using RealPathChk = char*(const char*, char*, std::size_t);
using CanonicalName = char*(const char*);
using FOpen = std::FILE*(const char*, const char*);
using OpenDir = DIR*(const char*);
using ReadDir = dirent*(DIR*);
using ReadDir64 = dirent64*(DIR*);
using ReadDirR = int(DIR*, dirent*, dirent**);
using ReadDirR64 = int(DIR*, dirent64*, dirent64**);
using FDOpenDir = DIR*(int);
using OfDir = int(DIR*);
using RewindDir = void(DIR*);
using TellDir = long(DIR*);
using SeekDir = void(DIR*, long);
using ScanDir = int(const char*, dirent***, int (*)(const dirent*),
                    int (*)(const dirent**, const dirent**));
using ScanDir64 = int(const char*, dirent64***, int (*)(const dirent64*),
                      int (*)(const dirent64**, const dirent64**));
using ScanDirAt = int(int, const char*, dirent***, int (*)(const dirent*),
                      int (*)(const dirent**, const dirent**));
using ScanDirAt64 = int(int, const char*, dirent64***, int (*)(const dirent64*),
                        int (*)(const dirent64**, const dirent64**));

constinit NextFunction<PathStat> next_stat{"stat"};
constinit NextFunction<PathStat64> next_stat64{"stat64"};
constinit NextFunction<PathStat> next_lstat{"lstat"};
constinit NextFunction<PathStat64> next_lstat64{"lstat64"};
constinit NextFunction<PathXStat> next_xstat{"__xstat"};
constinit NextFunction<PathXStat64> next_xstat64{"__xstat64"};
constinit NextFunction<PathXStat> next_lxstat{"__lxstat"};
constinit NextFunction<PathXStat64> next_lxstat64{"__lxstat64"};
constinit NextFunction<StatAt> next_fstatat{"fstatat"};
constinit NextFunction<StatAt64> next_fstatat64{"fstatat64"};
constinit NextFunction<XStatAt> next_fxstatat{"__fxstatat"};
constinit NextFunction<XStatAt64> next_fxstatat64{"__fxstatat64"};
constinit NextFunction<StatX> next_statx{"statx"};
constinit NextFunction<Access> next_access{"access"};
constinit NextFunction<Access> next_euidaccess{"euidaccess"};
constinit NextFunction<AccessAt> next_faccessat{"faccessat"};
constinit NextFunction<ReadLink> next_readlink{"readlink"};
constinit NextFunction<ReadLinkAt> next_readlinkat{"readlinkat"};
constinit NextFunction<RealPath> next_realpath{"realpath"};
constinit NextFunction<RealPathChk> next_realpath_chk{"__realpath_chk"};
constinit NextFunction<CanonicalName> next_canonicalize{"canonicalize_file_name"};
constinit NextFunction<FOpen> next_fopen{"fopen"};
constinit NextFunction<FOpen> next_fopen64{"fopen64"};
constinit NextFunction<OpenDir> next_opendir{"opendir"};
constinit NextFunction<ReadDir> next_readdir{"readdir"};
constinit NextFunction<ReadDir64> next_readdir64{"readdir64"};
constinit NextFunction<ReadDirR> next_readdir_r{"readdir_r"};
constinit NextFunction<ReadDirR64> next_readdir64_r{"readdir64_r"};
constinit NextFunction<FDOpenDir> next_fdopendir{"fdopendir"};
constinit NextFunction<OfDir> next_closedir{"closedir"};
constinit NextFunction<OfDir> next_dirfd{"dirfd"};
constinit NextFunction<RewindDir> next_rewinddir{"rewinddir"};
constinit NextFunction<TellDir> next_telldir{"telldir"};
constinit NextFunction<SeekDir> next_seekdir{"seekdir"};
constinit NextFunction<ScanDir> next_scandir{"scandir"};
constinit NextFunction<ScanDir64> next_scandir64{"scandir64"};
constinit NextFunction<ScanDirAt> next_scandirat{"scandirat"};
constinit NextFunction<ScanDirAt64> next_scandirat64{"scandirat64"};

/// Those that POSIX lists as async-signal-safe.
__attribute__((constructor)) void find_next_of_view() {
  (void)next_stat.get();
  (void)next_stat64.get();
  (void)next_lstat.get();
  (void)next_lstat64.get();
  (void)next_fstatat.get();
  (void)next_fstatat64.get();
  (void)next_access.get();
  (void)next_faccessat.get();
  (void)next_readlink.get();
  (void)next_readlinkat.get();
}

}  // namespace

SOFTIB_ABI int stat(const char* path, struct stat* status) noexcept {
  return stat_by_path(path, status, [&] { return next_stat.get()(path, status); });
}

SOFTIB_ABI int stat64(const char* path, struct stat64* status) noexcept {
  return stat_by_path(path, status, [&] { return next_stat64.get()(path, status); });
}

SOFTIB_ABI int lstat(const char* path, struct stat* status) noexcept {
  return stat_by_path(path, status, [&] { return next_lstat.get()(path, status); });
}

SOFTIB_ABI int lstat64(const char* path, struct stat64* status) noexcept {
  return stat_by_path(path, status, [&] { return next_lstat64.get()(path, status); });
}

SOFTIB_ABI int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  return stat_at(folder, path, flags, status,
                 [&] { return next_fstatat.get()(folder, path, status, flags); });
}

SOFTIB_ABI int fstatat64(int folder, const char* path, struct stat64* status, int flags) noexcept {
  return stat_at(folder, path, flags, status,
                 [&] { return next_fstatat64.get()(folder, path, status, flags); });
}

SOFTIB_ABI int statx(int folder, const char* path, int flags, unsigned mask,
                     struct statx* status) noexcept {
  return by_path_at(
      folder, or_folder(path, flags), -1,
      [&](const std::string& own) {
        struct stat found {};
        return view::stat_file(own, found) == 0 ? fill(found, *status) : -1;
      },
      [&] { return next_statx.get()(folder, path, flags, mask, status); });
}

// For programs that were built with a C library before 2.33.
// NOLINTBEGIN(bugprone-reserved-identifier)
SOFTIB_ABI int __xstat(int version, const char* path, struct stat* status) noexcept;
SOFTIB_ABI int __xstat(int version, const char* path, struct stat* status) noexcept {
  return stat_by_path(path, status, [&] { return next_xstat.get()(version, path, status); });
}

SOFTIB_ABI int __xstat64(int version, const char* path, struct stat64* status) noexcept;
SOFTIB_ABI int __xstat64(int version, const char* path, struct stat64* status) noexcept {
  return stat_by_path(path, status, [&] { return next_xstat64.get()(version, path, status); });
}

SOFTIB_ABI int __lxstat(int version, const char* path, struct stat* status) noexcept;
SOFTIB_ABI int __lxstat(int version, const char* path, struct stat* status) noexcept {
  return stat_by_path(path, status, [&] { return next_lxstat.get()(version, path, status); });
}

SOFTIB_ABI int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
SOFTIB_ABI int __lxstat64(int version, const char* path, struct stat64* status) noexcept {
  return stat_by_path(path, status, [&] { return next_lxstat64.get()(version, path, status); });
}

SOFTIB_ABI int __fxstatat(int version, int folder, const char* path, struct stat* status,
                          int flags) noexcept;
SOFTIB_ABI int __fxstatat(int version, int folder, const char* path, struct stat* status,
                          int flags) noexcept {
  return stat_at(folder, path, flags, status,
                 [&] { return next_fxstatat.get()(version, folder, path, status, flags); });
}

SOFTIB_ABI int __fxstatat64(int version, int folder, const char* path, struct stat64* status,
                            int flags) noexcept;
SOFTIB_ABI int __fxstatat64(int version, int folder, const char* path, struct stat64* status,
                            int flags) noexcept {
  return stat_at(folder, path, flags, status,
                 [&] { return next_fxstatat64.get()(version, folder, path, status, flags); });
}

SOFTIB_ABI char* __realpath_chk(const char* path, char* resolved, std::size_t room) noexcept;
SOFTIB_ABI char* __realpath_chk(const char* path, char* resolved, std::size_t room) noexcept {
  return by_path(
      path, static_cast<char*>(nullptr),
      [&](const std::string& own) { return real_path(own, resolved); },
      [&] { return next_realpath_chk.get()(path, resolved, room); });
}
// NOLINTEND(bugprone-reserved-identifier)

SOFTIB_ABI char* realpath(const char* path, char* resolved) noexcept {
  return by_path(
      path, static_cast<char*>(nullptr),
      [&](const std::string& own) { return real_path(own, resolved); },
      [&] { return next_realpath.get()(path, resolved); });
}

SOFTIB_ABI char* canonicalize_file_name(const char* path) noexcept {
  return by_path(
      path, static_cast<char*>(nullptr),
      [&](const std::string& own) { return real_path(own, nullptr); },
      [&] { return next_canonicalize.get()(path); });
}

SOFTIB_ABI int access(const char* path, int mode) noexcept {
  return by_path(
      path, -1, [&](const std::string& own) { return view::access_file(own, mode); },
      [&] { return next_access.get()(path, mode); });
}

SOFTIB_ABI int euidaccess(const char* path, int mode) noexcept {
  return by_path(
      path, -1, [&](const std::string& own) { return view::access_file(own, mode); },
      [&] { return next_euidaccess.get()(path, mode); });
}

SOFTIB_ABI int eaccess(const char* path, int mode) noexcept { return euidaccess(path, mode); }

SOFTIB_ABI int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return by_path_at(
      folder, or_folder(path, flags), -1,
      [&](const std::string& own) { return view::access_file(own, mode); },
      [&] { return next_faccessat.get()(folder, path, mode, flags); });
}

SOFTIB_ABI ssize_t readlink(const char* path, char* to, std::size_t room) noexcept {
  return by_path(
      path, ssize_t{-1}, [&](const std::string& own) -> ssize_t { return read_link(own); },
      [&] { return next_readlink.get()(path, to, room); });
}

SOFTIB_ABI ssize_t readlinkat(int folder, const char* path, char* to, std::size_t room) noexcept {
  return by_path_at(
      folder, path, ssize_t{-1}, [&](const std::string& own) -> ssize_t { return read_link(own); },
      [&] { return next_readlinkat.get()(folder, path, to, room); });
}

SOFTIB_ABI std::FILE* fopen(const char* path, const char* mode) {
  return by_path(
      path, static_cast<std::FILE*>(nullptr),
      [&](const std::string& own) { return open_stream(own, mode); },
      [&] { return next_fopen.get()(path, mode); });
}

SOFTIB_ABI std::FILE* fopen64(const char* path, const char* mode) {
  return by_path(
      path, static_cast<std::FILE*>(nullptr),
      [&](const std::string& own) { return open_stream(own, mode); },
      [&] { return next_fopen64.get()(path, mode); });
}

SOFTIB_ABI DIR* opendir(const char* path) {
  return by_path(path, static_cast<DIR*>(nullptr), open_view_folder,
                 [&] { return next_opendir.get()(path); });
}

SOFTIB_ABI DIR* fdopendir(int fd) {
  try {
    if (const auto own = view::opened_path(fd)) {
      const softib::NoCancellation whole;
      return take_view_folder(*own, fd);
    }
  } catch (const std::exception&) {
    errno = ENOMEM;
    return nullptr;
  }
  return next_fdopendir.get()(fd);
}

SOFTIB_ABI dirent* readdir(DIR* stream) {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_readdir.get()(stream) : read_view_folder(*folder);
}

SOFTIB_ABI dirent64* readdir64(DIR* stream) {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_readdir64.get()(stream)
                           : reinterpret_cast<dirent64*>(read_view_folder(*folder));
}

SOFTIB_ABI int readdir_r(DIR* stream, dirent* entry, dirent** result) {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_readdir_r.get()(stream, entry, result)
                           : read_into(*folder, entry, result);
}

SOFTIB_ABI int readdir64_r(DIR* stream, dirent64* entry, dirent64** result) {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_readdir64_r.get()(stream, entry, result)
                           : read_into(*folder, entry, result);
}

SOFTIB_ABI int closedir(DIR* stream) {
  auto* const folder = view::open_folder(stream);
  if (folder == nullptr) return next_closedir.get()(stream);
  view::close(folder);
  return 0;
}

SOFTIB_ABI int dirfd(DIR* stream) noexcept {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_dirfd.get()(stream) : descriptor_of(*folder);
}

SOFTIB_ABI void rewinddir(DIR* stream) noexcept {
  auto* const folder = view::open_folder(stream);
  if (folder == nullptr) return next_rewinddir.get()(stream);
  folder->next = 0;
}

SOFTIB_ABI long telldir(DIR* stream) noexcept {
  auto* const folder = view::open_folder(stream);
  return folder == nullptr ? next_telldir.get()(stream) : static_cast<long>(folder->next);
}

SOFTIB_ABI void seekdir(DIR* stream, long position) noexcept {
  auto* const folder = view::open_folder(stream);
  if (folder == nullptr) return next_seekdir.get()(stream, position);
  folder->next = static_cast<std::size_t>(std::max(position, 0L));
}

SOFTIB_ABI int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
                       int (*compare)(const dirent**, const dirent**)) {
  return by_path(
      path, -1, [&](const std::string& own) { return scan(own, list, filter, compare); },
      [&] { return next_scandir.get()(path, list, filter, compare); });
}

SOFTIB_ABI int scandir64(const char* path, dirent64*** list, int (*filter)(const dirent64*),
                         int (*compare)(const dirent64**, const dirent64**)) {
  return by_path(
      path, -1, [&](const std::string& own) { return scan(own, list, filter, compare); },
      [&] { return next_scandir64.get()(path, list, filter, compare); });
}

SOFTIB_ABI int scandirat(int at, const char* path, dirent*** list, int (*filter)(const dirent*),
                         int (*compare)(const dirent**, const dirent**)) {
  return by_path_at(
      at, path, -1, [&](const std::string& own) { return scan(own, list, filter, compare); },
      [&] { return next_scandirat.get()(at, path, list, filter, compare); });
}

SOFTIB_ABI int scandirat64(int at, const char* path, dirent64*** list,
                           int (*filter)(const dirent64*),
                           int (*compare)(const dirent64**, const dirent64**)) {
  return by_path_at(
      at, path, -1, [&](const std::string& own) { return scan(own, list, filter, compare); },
      [&] { return next_scandirat64.get()(at, path, list, filter, compare); });
}
