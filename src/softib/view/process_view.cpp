#include "softib/view/process_view.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <functional>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::view {

namespace {

constexpr ::off_t kPage = 4096;  ///< the size that the kernel states for each attribute

/// What the kernel shows of a memfd, around its name, which is the path of what it stands for.
constexpr std::string_view kBeforeName = "/memfd:";
constexpr std::string_view kAfterName = " (deleted)";

constinit std::atomic<bool> has_opened = false;

int fail(int error) {
  errno = error;
  return -1;
}

mode_t mode_of(Entry::Kind kind) {
  switch (kind) {
    case Entry::Kind::file:
      return S_IFREG | 0444;
    case Entry::Kind::folder:
      return S_IFDIR | 0755;
    case Entry::Kind::device:
      return S_IFCHR | 0666;
  }
  return 0;
}

}  // namespace

std::optional<std::string> own_path(const char* path) {
  if (path == nullptr) return std::nullopt;
  // The roots of the tree have one of these words in their paths.
  const bool may_be = *path == '/' && (std::strstr(path, "infiniband") != nullptr ||
                                       std::strstr(path, "rdma_cm") != nullptr);
  return may_be ? Tree::own_path(path) : std::nullopt;
}

std::optional<std::string> own_path_at(int folder, const char* path) {
  const bool is_relative = path != nullptr && *path != '\0' && *path != '/';
  if (!is_relative || folder == AT_FDCWD) return own_path(path);
  const auto at = opened_path(folder);
  return at ? own_path((*at + '/' + path).c_str()) : std::nullopt;
}

std::optional<std::string> opened_path(int fd) {
  if (!has_opened.load(std::memory_order_relaxed)) return std::nullopt;
  std::array<char, PATH_MAX> target;
  const int before = errno;
  // By a system call, since this library defines readlinkat(), which asks the view.
  std::array<char, 32> link{"/proc/self/fd/"};
  std::to_chars(link.data() + std::strlen(link.data()), link.end() - 1, fd);
  const auto size = ::syscall(SYS_readlinkat, AT_FDCWD, link.data(), target.data(), target.size());
  errno = before;
  std::string_view name(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!name.starts_with(kBeforeName) || !name.ends_with(kAfterName)) return std::nullopt;
  name.remove_prefix(kBeforeName.size());
  name.remove_suffix(kAfterName.size());
  return Tree::own_path(name);
}

std::optional<ProcessSubnet> process_subnet() {
  auto folder = fabric::SubnetFolder::from_environment();
  if (!folder) return std::nullopt;
  auto fabric = fabric::Fabric::open(folder->fabric());
  if (!fabric) return std::nullopt;
  return ProcessSubnet{std::move(*folder), std::move(*fabric)};
}

std::vector<ShownHca> process_hcas() {
  std::vector<ShownHca> shown;
  const auto names = endpoint::process_hca_names();
  const auto subnet = process_subnet();
  if (!names || !subnet) return shown;
  const auto* const fabric = &subnet->fabric;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const auto wanted = fabric::HcaName::parse((*names)[i]);
    const auto index = wanted ? fabric->find(wanted->name) : std::nullopt;
    const auto node = index ? fabric->node(*index) : std::nullopt;
    const auto ports = index ? fabric->hca_ports(*index) : std::nullopt;
    if (!node || !ports || node->port.failed) continue;
    ShownHca hca{i, *index, *node, *ports};
    hca.counters[node->port.number - 1U] = fabric->counters(*index);
    if (node->other_port != subnet::kNoOtherPort) {
      const auto number = fabric->hca_port(node->other_port).number;
      hca.counters[number - 1U] = fabric->counters(node->other_port);
    }
    shown.push_back(std::move(hca));
  }
  return shown;
}

Tree process_tree() { return Tree::of(process_hcas()); }

int open_file(const std::string& path, int flags) {
  const Tree tree = process_tree();
  const Entry* const entry = tree.find(path);
  if (entry == nullptr) return fail((flags & O_CREAT) != 0 ? EACCES : ENOENT);
  if (entry->kind == Entry::Kind::device) return fail(ENXIO);
  const bool is_folder = entry->kind == Entry::Kind::folder;
  if (!is_folder && (flags & O_DIRECTORY) != 0) return fail(ENOTDIR);
  if ((flags & O_ACCMODE) != O_RDONLY) return fail(is_folder ? EISDIR : EACCES);
  const auto close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0U;
  ipoib::FileDescriptor file(::memfd_create(path.c_str(), close_on_exec | MFD_ALLOW_SEALING));
  if (!file) return -1;
  const auto size = static_cast<ssize_t>(entry->text.size());
  if (::pwrite(file.get(), entry->text.data(), entry->text.size(), 0) != size) return fail(ENOSPC);
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  has_opened = true;
  return file.release();
}

int stat_file(const std::string& path, struct stat& status) {
  const Tree tree = process_tree();
  const Entry* const entry = tree.find(path);
  if (entry == nullptr) return fail(ENOENT);
  status = {};
  status.st_ino = std::hash<std::string>()(path);
  status.st_nlink = 1;
  status.st_mode = mode_of(entry->kind);
  status.st_size = entry->kind == Entry::Kind::file ? kPage : 0;
  status.st_blksize = kPage;
  if (entry->kind == Entry::Kind::device) status.st_rdev = makedev(entry->major, entry->minor);
  return 0;
}

int access_file(const std::string& path, int mode) {
  const Tree tree = process_tree();
  const Entry* const entry = tree.find(path);
  if (entry == nullptr) return fail(ENOENT);
  const bool writes = (mode & W_OK) != 0 && entry->kind != Entry::Kind::device;
  const bool executes = (mode & X_OK) != 0 && entry->kind != Entry::Kind::folder;
  return writes || executes ? fail(EACCES) : 0;
}

}  // namespace softib::view
