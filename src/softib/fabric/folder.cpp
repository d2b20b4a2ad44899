// Modes: only the subnet's folder restricts access (0700 unless the operator widens it). Everything
// in it is accessible to all users, so that processes of root and of the folder's owner work
// together.
#include "softib/fabric/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "softib/core/name.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kOpenMode = 0777;
constexpr mode_t kParentMode = 0755;
constexpr const char* kNodesName = "node";
constexpr const char* kDevicePrefix = "softib";
constexpr const char* kEndedName = "ended";

std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The path of the private directory, in the folder for temporary files.
std::string private_path() {
  const auto temporary = environment("TMPDIR");
  return std::filesystem::absolute(temporary.empty() ? "/tmp" : temporary).lexically_normal() /
         ("softib-" + std::to_string(::geteuid()));
}

/// The private directory, which need not exist. Others may have made something of that name before.
Result<std::string> private_directory() {
  auto path = private_path();
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    const int code = errno;
    if (code == ENOENT) return path;
    return Error{code, "no folder for emulated subnets: " + path + ": " + std::strerror(code) +
                           "; set SOFTIB_DIR or XDG_RUNTIME_DIR"};
  }
  const bool is_private = S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
                          (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  if (is_private) return path;
  return Error{EPERM, path +
                          " is not a folder of this user that others cannot enter: remove it, or "
                          "set SOFTIB_DIR or XDG_RUNTIME_DIR"};
}

Result<FileDescriptor> open_nodes(const std::string& path) {
  const auto top = open_folder(path);
  if (!top) return top.error();
  return open_folder(top->get(), kNodesName);
}

}  // namespace

Result<HcaName> HcaName::parse(std::string_view text) {
  HcaName hca;
  const auto colon = std::min(text.find(':'), text.size());
  hca.name = text.substr(0, colon);
  if (!is_valid_name(hca.name)) return invalid_name("HCA", hca.name);
  if (colon == text.size()) return hca;
  const std::string_view port = text.substr(colon + 1);
  if (port.size() != 1 || port[0] < '1' || port[0] > '0' + kMaxHcaPorts) {
    return Error{EINVAL, "the HCA '" + hca.name + "' has no port '" + std::string(port) +
                             "': an HCA has " + std::to_string(kMaxHcaPorts) + " ports"};
  }
  hca.port = static_cast<std::uint8_t>(port[0] - '0');
  return hca;
}

Result<std::vector<std::string>> parse_hcas(std::string_view list) {
  std::vector<std::string> hcas;
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto end = std::min(list.find(',', begin), list.size());
    hcas.emplace_back(list.substr(begin, end - begin));
    const auto hca = HcaName::parse(hcas.back());
    if (!hca) return hca.error();
    if (std::ranges::count(names, hca->name) > 0) {
      return Error{EINVAL, "the HCA '" + hca->name + "' is named twice"};
    }
    names.push_back(hca->name);
    begin = end + 1;
  }
  if (hcas.size() > kMaxProcessHcas) {
    return Error{EINVAL, "a program can use " + std::to_string(kMaxProcessHcas) + " HCAs, not " +
                             std::to_string(hcas.size())};
  }
  return hcas;
}

std::string device_name(std::size_t hca) { return kDevicePrefix + std::to_string(hca); }

std::optional<std::size_t> hca_of_device(std::string_view name) {
  for (std::size_t hca = 0; hca < kMaxProcessHcas; ++hca) {
    if (name == device_name(hca)) return hca;
  }
  return std::nullopt;
}

Result<std::string> softib_directory() {
  if (auto given = environment(kDirectoryVariable); !given.empty()) {
    return std::filesystem::absolute(given).string();
  }
  if (::geteuid() == 0) return std::string("/run/softib");
  if (const auto runtime = environment("XDG_RUNTIME_DIR"); !runtime.empty()) {
    return runtime + "/softib";
  }
  return private_directory();
}

Result<SubnetFolder> SubnetFolder::of(std::string_view subnet) {
  if (!is_valid_name(subnet)) return invalid_name("subnet", subnet);
  auto directory = softib_directory();
  if (!directory) return directory.error();
  return SubnetFolder(*directory + "/" + std::string(subnet));
}

Result<SubnetFolder> SubnetFolder::from_environment() {
  const auto subnet = environment(kSubnetVariable);
  return of(subnet.empty() ? kDefaultSubnet : subnet);
}

std::string SubnetFolder::name() const { return path_.substr(path_.rfind('/') + 1); }

std::string slot_name(std::uint32_t slot) { return std::to_string(slot); }

std::string slot_lock_name(std::uint32_t slot) { return slot_name(slot) + ".lock"; }

std::string slot_wakeup_name(std::uint32_t slot) { return slot_name(slot) + ".wakeup"; }

std::string slot_cm_name(std::uint32_t slot) { return slot_name(slot) + ".cm"; }

std::string SubnetFolder::node(NodeIndex node) const {
  return path_ + "/node/" + std::to_string(node);
}

std::string SubnetFolder::slot_socket(NodeIndex node_index, std::uint32_t slot) const {
  return node(node_index) + "/" + slot_name(slot);
}

std::string SubnetFolder::issm(NodeIndex node_index) const {
  return node(node_index) + "/" + kIssmName;
}

Result<FileDescriptor> SubnetFolder::open() const { return open_folder(path_); }

Result<FileDescriptor> SubnetFolder::open_node(NodeIndex node) const {
  const auto nodes = open_nodes(path_);
  if (!nodes) return nodes.error();
  return open_folder(nodes->get(), std::to_string(node));
}

Result<void> SubnetFolder::check(FolderUse use) const {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) {
    const int code = errno;
    return Error{code, path_ + ": " + std::strerror(code)};
  }
  const auto refused = [&](const std::string& why) {
    return Error{EPERM, "the folder " + path_ + " cannot be trusted: " + why +
                            "; remove it, or choose another directory with SOFTIB_DIR"};
  };
  if (S_ISLNK(status.st_mode)) return refused("it is a symbolic link");
  if (!S_ISDIR(status.st_mode)) return refused("it is not a folder");
  const auto user = ::geteuid();
  const bool is_any_owner_right = user == 0 && use == FolderUse::attach;
  if (status.st_uid != user && status.st_uid != 0 && !is_any_owner_right) {
    return refused("it belongs to user " + std::to_string(status.st_uid));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refused("users other than its owner may write to it");
  }
  return {};
}

Result<void> SubnetFolder::create() const {
  const auto make = [](const std::string& path, mode_t mode) -> Result<void> {
    auto made = make_folder(AT_FDCWD, path, mode);
    if (made) return made;
    return Error{made.error().code,
                 made.error().message + "; choose another directory with SOFTIB_DIR"};
  };
  const auto private_to_user = private_path();
  for (std::size_t slash = path_.find('/', 1); slash != std::string::npos;
       slash = path_.find('/', slash + 1)) {
    const auto path = path_.substr(0, slash);
    const bool is_private = path == private_to_user;
    const auto parent = make(path, is_private ? kFolderMode : kParentMode);
    if (!parent) return parent.error();
    if (is_private) {
      if (const auto checked = private_directory(); !checked) return checked.error();
    }
  }
  if (const auto made = make(path_, kFolderMode); !made) return made.error();
  if (const auto checked = check(FolderUse::serve); !checked) return checked.error();
  const auto top = open();
  if (!top) return top.error();
  return make_folder(top->get(), kNodesName, kOpenMode);
}

Result<void> SubnetFolder::create_node(NodeIndex index) const {
  const auto nodes = open_nodes(path_);
  if (!nodes) return nodes.error();
  return make_folder(nodes->get(), std::to_string(index), kOpenMode);
}

void SubnetFolder::remove_node(NodeIndex index) const {
  const auto nodes = open_nodes(path_);
  const auto node = open_node(index);
  if (!nodes || !node) return;
  for (const auto& file : slot_files(index)) ::unlinkat(node->get(), file.name.c_str(), 0);
  ::unlinkat(node->get(), kAgentsName, 0);
  ::unlinkat(node->get(), kServicesName, 0);
  ::unlinkat(node->get(), kPortsName, 0);
  ::unlinkat(node->get(), kGroupsName, 0);
  ::unlinkat(node->get(), kIssmName, 0);
  ::unlinkat(nodes->get(), std::to_string(index).c_str(), AT_REMOVEDIR);
}

std::vector<SlotFile> SubnetFolder::slot_files(NodeIndex index) const {
  std::vector<SlotFile> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(node(index), ignored)) {
    SlotFile file{entry.path().filename().string()};
    const auto& name = file.name;
    const auto number = std::from_chars(name.data(), name.data() + name.size(), file.slot);
    if (number.ec != std::errc() || file.slot >= QpnLayout::kSlots) continue;
    const auto is_name = [&](auto* name_of) { return name == name_of(file.slot); };
    if (is_name(slot_name) || is_name(slot_lock_name) || is_name(slot_wakeup_name) ||
        is_name(slot_cm_name)) {
      files.push_back(std::move(file));
    }
  }
  std::ranges::sort(files, {}, &SlotFile::slot);
  return files;
}

void SubnetFolder::remove_captures() const {
  const auto top = open();
  if (!top) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(kCaptureNamePrefix)) ::unlinkat(top->get(), name.c_str(), 0);
  }
}

void SubnetFolder::remove() const {
  const auto top = open();
  if (!top) return;
  remove_captures();
  ::unlinkat(top->get(), kNodesName, AT_REMOVEDIR);
  for (const char* name :
       {"fabric", "fabric.new", "control", "options", "options.new", kEndedName, "lock"}) {
    ::unlinkat(top->get(), name, 0);
  }
  ::rmdir(path_.c_str());
}

void SubnetFolder::mark_ended(bool ended) const {
  const auto top = open();
  if (!top) return;
  if (ended) {
    (void)open_shared(top->get(), kEndedName, IfMissing::create);
  } else {
    ::unlinkat(top->get(), kEndedName, 0);
  }
}

bool SubnetFolder::is_ended() const {
  const auto top = open();
  return top && ::faccessat(top->get(), kEndedName, F_OK, 0) == 0;
}

bool SubnetFolder::is_running() const {
  const auto file = open_shared(lock(), IfMissing::fail);
  return file && is_locked(file->get(), 0);
}

}  // namespace softib::fabric
