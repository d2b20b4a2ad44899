// The tools of rdma-core read some attributes of a device from sysfs, through libibverbs.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string>
#include <string_view>

#include "ipoib/file_descriptor.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/view/process_view.hpp"

namespace softib::verbs {
namespace {

constexpr const char* kSysfs = "/sys";

int copy(std::string_view value, char* to, std::size_t room) {
  if (room == 0) return -1;
  const auto size = std::min(value.size(), room - 1);
  std::copy_n(value.begin(), size, to);
  to[size] = '\0';
  return static_cast<int>(size);
}

int read_file(const std::string& path, char* to, std::size_t room) {
  if (room == 0) return -1;
  const ipoib::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = file ? ::read(file.get(), to, room - 1) : -1;
  if (size < 0) return -1;
  const bool line = size > 0 && to[size - 1] == '\n';
  to[line ? size - 1 : size] = '\0';
  return static_cast<int>(line ? size - 1 : size);
}

}  // namespace

SOFTIB_ABI const char* ibv_get_sysfs_path() { return kSysfs; }

/// Reads a file without the newline at its end. Returns its size, or -1 if it cannot be read.
SOFTIB_ABI int ibv_read_sysfs_file(const char* folder, const char* file, char* to,
                                   std::size_t room) {
  try {
    const std::string path = std::string(folder) + '/' + file;
    const auto own = view::own_path(path.c_str());
    if (!own) return read_file(path, to, room);
    const auto tree = view::process_tree();
    const auto* const entry = tree.find(*own);
    if (entry != nullptr && entry->kind == view::Entry::Kind::file) {
      return copy(std::string_view(entry->text).substr(0, entry->text.size() - 1), to, room);
    }
    errno = ENOENT;
  } catch (const std::exception&) {
    errno = ENOMEM;
  }
  return -1;
}

}  // namespace softib::verbs
