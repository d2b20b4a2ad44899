#include "softib/view/tree.hpp"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "softib/fabric/folder.hpp"
#include "softib/hca/limits.hpp"
#include "softib/subnet/node_attributes.hpp"

namespace softib::view {

namespace {

constexpr const char* kDevices = "/dev/infiniband";
constexpr const char* kHcas = "/sys/class/infiniband";
constexpr const char* kVerbs = "/sys/class/infiniband_verbs";
constexpr const char* kMads = "/sys/class/infiniband_mad";
constexpr const char* kCm = "/sys/class/infiniband_cm";
constexpr const char* kRdmaCm = "/sys/class/misc/rdma_cm";
constexpr std::array kRoots{kDevices, kHcas, kVerbs, kMads, kCm, kRdmaCm};
/// Between these two, the name of a network interface: there are the HCAs that have it.
constexpr std::string_view kInterfaces = "/sys/class/net/";
constexpr std::string_view kHcasOfInterface = "/device/infiniband";

// Numbers that the kernel has reserved for these devices (Documentation/admin-guide/devices.txt).
constexpr unsigned kMajor = 231;
constexpr unsigned kFirstUmad = 0;
constexpr unsigned kFirstUverbs = 192;
constexpr unsigned kMiscMajor = 10;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

/// Groups of four digits with colons, all of them.
template <std::size_t Size>
std::string in_groups(const std::array<std::uint8_t, Size>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < Size; i += 2) {
    text += format(i == 0 ? "%02x%02x" : ":%02x%02x", bytes[i], bytes[i + 1]);
  }
  return text;
}

std::string guid_text(Guid guid) {
  std::array<std::uint8_t, 8> bytes{};
  ipoib::store_be(bytes.data(), guid.value());
  return in_groups(bytes);
}

std::string state_text(unsigned state) {
  constexpr std::array kNames{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
  return std::to_string(state) + ": " + (state < kNames.size() ? kNames[state] : "<unknown>");
}

std::string physical_state_text(unsigned state) {
  constexpr std::array kNames{"<unknown>", "Sleep", "Polling", "Disabled", "Training", "LinkUp"};
  return std::to_string(state) + ": " + (state < kNames.size() ? kNames[state] : "<unknown>");
}

/// As the kernel writes it, without the lanes.
std::string rate_text(const ipoib::wire::PortInfo& info) {
  const auto mbps = ipoib::wire::link_mbps(info.link_width_active, info.link_speed_active);
  const auto text = std::to_string(mbps / 1000);
  return text + (mbps % 1000 == 500 ? ".5" : "") + " Gb/sec";
}

/// The name of the network interface of a port in this network namespace; empty if it has none.
std::string interface_of(const PortAttributes& port) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(port.network_interface, name.data()) != nullptr ? name.data() : "";
}

struct NamedCounter {
  const char* name;
  std::uint64_t subnet::PerformanceCounters::*value;
};
/// Names of the kernel.
constexpr std::array kCounters{
    NamedCounter{"VL15_dropped", &subnet::PerformanceCounters::vl15_dropped},
    NamedCounter{"port_rcv_data", &subnet::PerformanceCounters::receive_data},
    NamedCounter{"port_rcv_errors", &subnet::PerformanceCounters::receive_errors},
    NamedCounter{"port_rcv_packets", &subnet::PerformanceCounters::receive_packets},
    NamedCounter{"port_rcv_switch_relay_errors", &subnet::PerformanceCounters::relay_errors},
    NamedCounter{"port_xmit_data", &subnet::PerformanceCounters::transmit_data},
    NamedCounter{"port_xmit_discards", &subnet::PerformanceCounters::transmit_discards},
    NamedCounter{"port_xmit_packets", &subnet::PerformanceCounters::transmit_packets},
    NamedCounter{"symbol_error", &subnet::PerformanceCounters::symbol_errors},
};

/// Whether the path is `root` or below it.
bool is_at(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool is_of_interface(std::string_view path) {
  if (!path.starts_with(kInterfaces)) return false;
  const auto name_end = path.find('/', kInterfaces.size());
  return name_end != std::string_view::npos && is_at(path.substr(name_end), kHcasOfInterface);
}

}  // namespace

std::optional<std::string> Tree::own_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  if (normal.starts_with("//")) normal.erase(0, 1);
  const bool is_own =
      is_of_interface(normal) ||
      std::ranges::any_of(kRoots, [&](std::string_view root) { return is_at(normal, root); });
  return is_own ? std::optional(std::move(normal)) : std::nullopt;
}

Tree Tree::of(std::span<const ShownHca> hcas) {
  Tree tree;
  for (const char* root : kRoots) tree.add(root, {.kind = Entry::Kind::folder});
  tree.add(std::string(kDevices) + "/rdma_cm",
           {.kind = Entry::Kind::device, .major = kMiscMajor, .minor = 0});
  tree.add_file(std::string(kRdmaCm) + "/abi_version", "4");
  tree.add_file(std::string(kVerbs) + "/abi_version", "6");
  tree.add_file(std::string(kMads) + "/abi_version", "5");
  for (const ShownHca& hca : hcas) tree.add_hca(hca);
  return tree;
}

const Entry* Tree::find(const std::string& path) const {
  const auto found = entries_.find(path);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, Entry::Kind>> Tree::list(const std::string& folder) const {
  std::vector<std::pair<std::string, Entry::Kind>> names;
  const std::string front = folder + '/';
  for (auto each = entries_.lower_bound(front);
       each != entries_.end() && each->first.starts_with(front); ++each) {
    const auto name = each->first.substr(front.size());
    if (name.find('/') == std::string::npos) names.emplace_back(name, each->second.kind);
  }
  return names;
}

/// Adds an entry and the folders in which it is.
void Tree::add(const std::string& path, Entry entry) {
  for (auto slash = path.rfind('/'); slash != std::string::npos && slash != 0;
       slash = path.rfind('/', slash - 1)) {
    const auto folder = path.substr(0, slash);
    if (!own_path(folder)) break;
    entries_.try_emplace(folder, Entry{.kind = Entry::Kind::folder});
  }
  entries_[path] = std::move(entry);
}

void Tree::add_file(const std::string& path, std::string text) {
  add(path, {.kind = Entry::Kind::file, .text = std::move(text) + '\n'});
}

void Tree::add_hca(const ShownHca& hca) {
  const auto number = static_cast<unsigned>(hca.number);
  const std::string device = fabric::device_name(hca.number);
  const std::string uverbs = "uverbs" + std::to_string(number);
  add(std::string(kDevices) + '/' + uverbs,
      {.kind = Entry::Kind::device, .major = kMajor, .minor = kFirstUverbs + number});
  add_file(std::string(kVerbs) + '/' + uverbs + "/ibdev", device);
  add_file(std::string(kVerbs) + '/' + uverbs + "/abi_version", "1");
  add_file(std::string(kVerbs) + '/' + uverbs + "/dev",
           format("%u:%u", kMajor, kFirstUverbs + number));
  for (const auto& port : hca.ports.all()) {
    // The numbers do not depend on what other HCAs the process has.
    const bool is_first = port.number == hca.node.port.number;
    const auto others = is_first ? 0U : static_cast<unsigned>(fabric::kMaxProcessHcas);
    if (port.has_cable) add_umad(device, number + others, port.number);
  }

  const std::string folder = std::string(kHcas) + '/' + device;
  const auto description = subnet::node_description(hca.node);
  add_file(folder + "/board_id", "SOFTIB");
  add_file(folder + "/fw_ver", subnet::kFirmwareVersion);
  add_file(folder + "/hca_type", subnet::kDeviceType);
  add_file(folder + "/hw_rev", std::to_string(subnet::kHardwareRevision));
  add_file(folder + "/node_desc", std::string(description.data()));
  add_file(folder + "/node_guid", guid_text(hca.node.port.node_guid));
  add_file(folder + "/node_type", "1: CA");
  add_file(folder + "/sys_image_guid", guid_text(hca.node.port.node_guid));
  add_file(folder + "/device/numa_node", "-1");
  if (const auto interface = interface_of(hca.node.port); !interface.empty()) {
    add(folder + "/device/net/" + interface, {.kind = Entry::Kind::folder});
    const std::string of_interface = std::string(kInterfaces) + interface;
    add(of_interface + std::string(kHcasOfInterface) + '/' + device, {.kind = Entry::Kind::folder});
  }
  for (unsigned port = 1; port <= hca.ports.count(); ++port) {
    add_port(folder + "/ports/" + std::to_string(port), hca, port);
  }
}

void Tree::add_umad(const std::string& device, unsigned number, unsigned port) {
  const std::string umad = "umad" + std::to_string(number);
  add(std::string(kDevices) + '/' + umad,
      {.kind = Entry::Kind::device, .major = kMajor, .minor = kFirstUmad + number});
  add_file(std::string(kMads) + '/' + umad + "/ibdev", device);
  add_file(std::string(kMads) + '/' + umad + "/port", std::to_string(port));
  add_file(std::string(kMads) + '/' + umad + "/dev", format("%u:%u", kMajor, kFirstUmad + number));
}

void Tree::add_port(const std::string& folder, const ShownHca& hca, unsigned number) {
  const PortAttributes& port = hca.ports[number];
  const auto info = subnet::port_info(port);
  add_file(folder + "/cap_mask", format("0x%08x", info.capability_mask));
  add_file(folder + "/lid", format("0x%x", info.lid.value()));
  add_file(folder + "/lid_mask_count", std::to_string(info.lmc));
  add_file(folder + "/link_layer", port.is_ethernet() ? "Ethernet" : "InfiniBand");
  add_file(folder + "/phys_state", physical_state_text(info.physical_state));
  add_file(folder + "/rate", rate_text(info));
  add_file(folder + "/sm_lid", format("0x%x", info.sm_lid.value()));
  add_file(folder + "/sm_sl", std::to_string(info.sm_sl.value()));
  add_file(folder + "/state", state_text(info.port_state));
  const auto interface = interface_of(port);
  for (std::size_t i = 0; i < port.gid_table_size(); ++i) {
    const auto index = std::to_string(i);
    add_file(folder + "/gids/" + index, in_groups(port.gid(i).bytes()));
    add_file(folder + "/gid_attrs/types/" + index, port.is_ethernet() ? "RoCE v2" : "IB/RoCE v1");
    if (!interface.empty() && !port.gid(i).is_zero()) {
      add_file(folder + "/gid_attrs/ndevs/" + index, interface);
    }
  }
  for (std::size_t i = 0; i < port.pkeys.size(); ++i) {
    add_file(folder + "/pkeys/" + std::to_string(i), format("0x%04x", port.pkeys[i].value()));
  }
  const auto& values = hca.counters[number - 1];
  const auto counters = fabric::performance_counters(values);
  for (const auto& each : kCounters) {
    add_file(folder + "/counters/" + each.name, std::to_string(counters.*each.value));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto name = fabric::name(static_cast<fabric::PortCounter>(i));
    add_file(folder + "/hw_counters/" + std::string(name), std::to_string(values[i]));
  }
  // The name that mlx5 gives to datagrams that found no posted receive, of any queue pair.
  constexpr auto kNoReceive = static_cast<std::size_t>(fabric::PortCounter::drop_no_receive);
  add_file(folder + "/hw_counters/out_of_buffer", std::to_string(values[kNoReceive]));
}

}  // namespace softib::view
