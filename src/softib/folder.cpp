// Modes: the subnet's folder is the only gate (0700 unless a person widens it). What is in it is
// made open to everybody, so that root's processes and those of the folder's owner work together.
#include "softib/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ipoib/file_descriptor.hpp"
#include "softib/file_lock.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

constexpr mode_t kGate = 0700;
constexpr mode_t kOpen = 0777;

std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// Makes one folder with exactly this mode; one that is there keeps its own.
Result<void> make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) {
    // The process's umask is not asked.
    if (::chmod(path.c_str(), mode) != 0) return failure("cannot set the mode of " + path, errno);
    return {};
  }
  const int code = errno;
  struct stat status {};
  if (code == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
  return failure("cannot make the folder " + path, code);
}

}  // namespace

bool is_valid_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNodeName) return false;
  if (name.front() == '.' || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Result<std::string> softib_directory() {
  if (auto given = environment(kDirectoryVariable); !given.empty()) return given;
  if (::geteuid() == 0) return std::string("/run/softib");
  if (const auto runtime = environment("XDG_RUNTIME_DIR"); !runtime.empty()) {
    return runtime + "/softib";
  }
  return Error{
      ENOENT, "no folder for emulated subnets: set SOFTIB_DIR (XDG_RUNTIME_DIR is not set either)"};
}

Result<SubnetFolder> SubnetFolder::of(std::string_view subnet) {
  if (!is_valid_name(subnet)) {
    return Error{EINVAL, "not a name for a subnet: '" + std::string(subnet) +
                             "' (letters, digits, '.', '_', '-'; at most 63)"};
  }
  auto directory = softib_directory();
  if (!directory) return directory.error();
  return SubnetFolder(*directory + "/" + std::string(subnet));
}

Result<SubnetFolder> SubnetFolder::from_environment() {
  const auto subnet = environment(kSubnetVariable);
  return of(subnet.empty() ? kDefaultSubnet : subnet);
}

std::string SubnetFolder::name() const { return path_.substr(path_.rfind('/') + 1); }

std::string SubnetFolder::node(NodeIndex node) const {
  return path_ + "/node/" + std::to_string(node);
}

std::string SubnetFolder::place(NodeIndex node_index, std::uint32_t place) const {
  return node(node_index) + "/" + std::to_string(place);
}

std::string SubnetFolder::place_lock(NodeIndex node, std::uint32_t place_index) const {
  return place(node, place_index) + ".lock";
}

std::string SubnetFolder::agents(NodeIndex node_index) const {
  return node(node_index) + "/agents";
}

std::string SubnetFolder::issm(NodeIndex node_index) const { return node(node_index) + "/issm"; }

Result<void> SubnetFolder::create() const {
  for (std::size_t slash = path_.find('/', 1); slash != std::string::npos;
       slash = path_.find('/', slash + 1)) {
    if (auto parent = make_folder(path_.substr(0, slash), 0755); !parent) return parent;
  }
  if (auto gate = make_folder(path_, kGate); !gate) return gate;
  return make_folder(path_ + "/node", kOpen);
}

Result<void> SubnetFolder::create_node(NodeIndex index) const {
  return make_folder(node(index), kOpen);
}

void SubnetFolder::remove_node(NodeIndex index) const {
  for (std::uint32_t i = 0; i < QpnLayout::kPlaces; ++i) {
    ::unlink(place(index, i).c_str());
    ::unlink(place_lock(index, i).c_str());
  }
  ::unlink(agents(index).c_str());
  ::unlink(issm(index).c_str());
  ::rmdir(node(index).c_str());
}

bool SubnetFolder::is_running() const {
  const ipoib::FileDescriptor file(::open(lock().c_str(), O_RDWR | O_CLOEXEC));
  return file && is_locked(file.get(), 0);
}

}  // namespace softib
