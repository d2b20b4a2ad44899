// The tools of rdma-core read some attributes of a device from sysfs, through libibverbs. This
// returns the attributes of the emulated devices; other files are read.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "ipoib/file_descriptor.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/verbs/abi.hpp"

namespace softib::verbs {
namespace {

struct Attribute {
  std::string_view name;
  std::string_view value;
};
constexpr std::array kAttributes = {
    Attribute{"board_id", "SOFTIB"},
    Attribute{"fw_ver", subnet::kFirmwareVersion},
    Attribute{"hca_type", subnet::kDeviceType},
    Attribute{"hw_rev", "0"},
    Attribute{"node_type", "1: CA"},
};

/// The counter of mlx5 ports for datagrams that found no posted receive, of any queue pair.
constexpr std::string_view kOutOfBuffer = "ports/1/hw_counters/out_of_buffer";

/// The file that librdmacm reads before it opens the rdma_cm device.
constexpr std::string_view kRdmaCmAbi = "class/misc/rdma_cm/abi_version";
constexpr std::string_view kRdmaCmAbiVersion = "4";

std::optional<std::string> value_of(std::size_t hca, std::string_view name) {
  const auto* const found = std::find_if(kAttributes.begin(), kAttributes.end(),
                                         [&](const Attribute& each) { return each.name == name; });
  if (found != kAttributes.end()) return std::string(found->value);
  if (name != kOutOfBuffer) return std::nullopt;
  const auto endpoint = endpoint::process_endpoint(hca);
  if (!endpoint) return std::nullopt;
  constexpr auto kCounter = static_cast<std::size_t>(fabric::PortCounter::drop_no_receive);
  return std::to_string((*endpoint)->counters()[kCounter]);
}

/// The HCA of the device with this folder; nullopt if it is not emulated.
std::optional<std::size_t> hca_of(std::string_view folder) {
  constexpr std::string_view kFolder = "/sys/class/infiniband/";
  if (!folder.starts_with(kFolder)) return std::nullopt;
  return fabric::hca_of_device(folder.substr(kFolder.size()));
}

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

SOFTIB_ABI const char* ibv_get_sysfs_path() { return "/sys"; }

/// Reads a file without the newline at its end. Returns its size, or -1 if it cannot be read.
SOFTIB_ABI int ibv_read_sysfs_file(const char* folder, const char* file, char* to,
                                   std::size_t room) {
  try {
    if (file == kRdmaCmAbi) return copy(kRdmaCmAbiVersion, to, room);
    const auto hca = hca_of(folder);
    if (!hca) return read_file(std::string(folder) + "/" + file, to, room);
    if (const auto value = value_of(*hca, file)) return copy(*value, to, room);
    errno = ENOENT;
  } catch (...) {
    errno = ENOMEM;
  }
  return -1;
}

}  // namespace softib::verbs
