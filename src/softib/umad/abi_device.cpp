// Describes the devices of a process. libibumad reads the same from sysfs.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "softib/fabric/shared_file.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/umad/abi.hpp"

namespace softib::umad {

namespace {

template <std::size_t Size>
void copy_name(char (&to)[Size], std::string_view from) {
  const std::size_t count = std::min(from.size(), Size - 1);
  std::copy_n(from.data(), count, to);
  to[count] = '\0';
}

/// Describes a port. Returns 0 or -ENOMEM.
int describe(const std::string& device, const PortAttributes& attributes, umad_port_t& port) {
  const auto info = subnet::port_info(attributes);
  port = {};
  auto* const pkeys =
      static_cast<std::uint16_t*>(std::calloc(attributes.pkeys.size(), sizeof(std::uint16_t)));
  if (pkeys == nullptr) return -ENOMEM;
  std::transform(attributes.pkeys.begin(), attributes.pkeys.end(), pkeys,
                 [](PKey pkey) { return pkey.value(); });
  copy_name(port.ca_name, device);
  port.portnum = attributes.number;
  port.base_lid = info.lid.value();
  port.lmc = info.lmc;
  port.sm_lid = info.sm_lid.value();
  port.sm_sl = info.sm_sl.value();
  port.state = info.port_state;
  port.phys_state = info.physical_state;
  port.rate = ipoib::wire::link_mbps(info.link_width_active, info.link_speed_active) / 1000;
  port.capmask = to_network(info.capability_mask);
  port.gid_prefix = to_network(info.gid_prefix);
  port.port_guid = to_network(attributes.port_guid.value());
  port.pkeys_size = static_cast<unsigned>(attributes.pkeys.size());
  port.pkeys = pkeys;
  copy_name(port.link_layer, "InfiniBand");
  return 0;
}

int get_ca(UmadHost& umad, umad_ca_t& ca) {
  const HcaPorts ports = umad.endpoint().ports();
  ca = {};
  copy_name(ca.ca_name, umad.device_name());
  ca.node_type = ipoib::wire::NodeInfo::kChannelAdapter;
  ca.numports = ports.count();
  copy_name(ca.fw_ver, subnet::kFirmwareVersion);
  copy_name(ca.ca_type, subnet::kDeviceType);
  copy_name(ca.hw_ver, std::to_string(subnet::kHardwareRevision));
  ca.node_guid = to_network(ports[1].node_guid.value());
  ca.system_guid = ca.node_guid;
  for (unsigned number = 1; number <= ports.count(); ++number) {
    ca.ports[number] = static_cast<umad_port_t*>(std::calloc(1, sizeof(umad_port_t)));
    const bool is_made = ca.ports[number] != nullptr &&
                         describe(umad.device_name(), ports[number], *ca.ports[number]) == 0;
    if (is_made) continue;
    umad_release_ca(&ca);
    return -ENOMEM;
  }
  return 0;
}

/// Makes a node of the list. Node and name are one allocation: programs may call libibumad's
/// umad_free_ca_device_list(). Returns null if there is no memory.
umad_device_node* make_node(const std::string& name) {
  void* const memory = std::calloc(1, sizeof(umad_device_node) + name.size() + 1);
  if (memory == nullptr) return nullptr;
  char* const text = static_cast<char*>(memory) + sizeof(umad_device_node);
  std::copy_n(name.data(), name.size(), text);
  auto* const node = static_cast<umad_device_node*>(memory);
  node->ca_name = text;
  return node;
}

/// The names of the devices of all HCAs of the process.
std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (std::size_t hca = 0; hca < endpoint::process_hcas(); ++hca) {
    if (const auto* const umad = host(hca)) names.push_back(umad->device_name());
  }
  return names;
}

umad_ca_pair pair_of(const std::string& device) {
  umad_ca_pair pair{};
  copy_name(pair.smi_name, device);
  copy_name(pair.gsi_name, device);
  return pair;
}

}  // namespace

UmadHost* host(std::size_t hca) {
  std::string why;
  UmadHost* const found = UmadHost::get(hca, why);
  static std::atomic<bool> printed = false;
  if (found == nullptr && !printed.exchange(true)) print_stderr("umad", why);
  return found;
}

UmadHost* host_of(const char* device) {
  if (device == nullptr) return host(0);
  const auto hca = fabric::hca_of_device(device);
  return hca && *hca < endpoint::process_hcas() ? host(*hca) : nullptr;
}

}  // namespace softib::umad

using namespace softib::umad;

extern "C" {

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max) {
  return guarded([&] {
    int count = 0;
    for (const auto& name : device_names()) {
      if (count < max) std::strncpy(cas[count++], name.c_str(), UMAD_CA_NAME_LEN);
    }
    return count;
  });
}

int umad_get_ca(const char* ca_name, umad_ca_t* ca) {
  return guarded([&] {
    UmadHost* const umad = host_of(ca_name);
    return umad == nullptr ? -ENODEV : get_ca(*umad, *ca);
  });
}

int umad_release_ca(umad_ca_t* ca) {
  if (ca == nullptr) return -ENODEV;
  for (auto*& port : ca->ports) {
    if (port == nullptr) continue;
    umad_release_port(port);
    std::free(port);
    port = nullptr;
  }
  return 0;
}

int umad_get_port(const char* ca_name, int portnum, umad_port_t* port) {
  return guarded([&] {
    UmadHost* const umad = host_of(ca_name);
    if (umad == nullptr) return -ENODEV;
    const auto ports = umad->endpoint().ports();
    const auto number =
        portnum == UMAD_ANY_PORT ? ports.preferred().number : static_cast<unsigned>(portnum);
    return ports.has(number) ? describe(umad->device_name(), ports[number], *port) : -EIO;
  });
}

int umad_release_port(umad_port_t* port) {
  if (port == nullptr) return -ENODEV;
  std::free(port->pkeys);
  port->pkeys = nullptr;
  port->pkeys_size = 0;
  return 0;
}

/// The entries are indexed by port number. Entry 0 is zero: only switches have a port 0.
int umad_get_ca_portguids(const char* ca_name, __be64* portguids, int max) {
  return guarded([&] {
    UmadHost* const umad = host_of(ca_name);
    if (umad == nullptr) return -ENODEV;
    if (portguids == nullptr) return 0;
    const auto ports = umad->endpoint().ports();
    if (max < ports.count() + 1) return -ENOMEM;
    portguids[0] = 0;
    for (unsigned number = 1; number <= ports.count(); ++number) {
      portguids[number] = softib::to_network(ports[number].port_guid.value());
    }
    return ports.count() + 1;
  });
}

/// The issm device is a named pipe. While a subnet manager such as OpenSM has it open for reading,
/// the port reports IsSM.
int umad_get_issm_path(const char* ca_name, int portnum, char path[], int max) {
  return guarded([&] {
    UmadHost* const umad = host_of(ca_name);
    if (umad == nullptr) return -ENODEV;
    const auto ports = umad->endpoint().ports();
    const auto number =
        portnum == UMAD_ANY_PORT ? ports.preferred().number : static_cast<unsigned>(portnum);
    if (!ports.has(number) || !ports[number].has_cable || max <= 0) return -EINVAL;
    const auto node = umad->endpoint().node_of(ports[number].number);
    const std::string issm = umad->folder().issm(node);
    const auto at = umad->folder().open_node(node);
    const bool is_there = at && softib::fabric::make_pipe(at->get(), softib::fabric::kIssmName);
    if (!is_there || issm.size() >= static_cast<std::size_t>(max)) return -EINVAL;
    std::copy_n(issm.c_str(), issm.size() + 1, path);
    return 0;
  });
}

/// Each device is a pair by itself: its ports have both QP0 (SMI) and QP1 (GSI).
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max) {
  return guarded([&] {
    int count = 0;
    for (const auto& name : device_names()) {
      if (static_cast<std::size_t>(count) == max) break;
      cas[count++] = pair_of(name);
    }
    return count;
  });
}

/// Any device for null, any port that is not down for 0.
int umad_get_smi_gsi_pair_by_ca_name(const char* devname, uint8_t portnum,
                                     struct umad_ca_pair* ca_pair, unsigned /*enforce_smi*/) {
  if (ca_pair == nullptr) return -1;
  return guarded([&] {
    *ca_pair = {};
    for (const auto& name : device_names()) {
      UmadHost* const umad =
          devname == nullptr || name == devname ? host_of(name.c_str()) : nullptr;
      if (umad == nullptr) continue;
      const auto ports = umad->endpoint().ports();
      if (portnum != 0 && !ports.has(portnum)) continue;
      const auto& ours = portnum == 0 ? ports.preferred() : ports[portnum];
      if (ours.state == softib::PortState::down) continue;
      *ca_pair = pair_of(name);
      ca_pair->smi_preferred_port = ca_pair->gsi_preferred_port = ours.number;
      return 0;
    }
    errno = ENODEV;
    return -ENODEV;
  });
}

struct umad_device_node* umad_get_ca_device_list(void) {
  umad_device_node* first = nullptr;
  const int listed = guarded([&] {
    umad_device_node** end = &first;
    for (const auto& name : device_names()) {
      *end = make_node(name);
      if (*end == nullptr) return -ENOMEM;
      end = &(*end)->next;
    }
    return 0;
  });
  if (listed != 0) umad_free_ca_device_list(std::exchange(first, nullptr));
  return first;
}

void umad_free_ca_device_list(struct umad_device_node* head) {
  while (head != nullptr) std::free(std::exchange(head, head->next));
}

/// Sorts by name the first `size` nodes, or all if it is 0.
int umad_sort_ca_device_list(struct umad_device_node** head, size_t size) {
  return guarded(
      [&] {
        if (head == nullptr) return EINVAL;
        std::vector<umad_device_node*> nodes;
        for (auto* node = *head; node != nullptr && (size == 0 || nodes.size() < size);
             node = node->next) {
          nodes.push_back(node);
        }
        if (nodes.empty()) return 0;
        if (size != 0 && nodes.size() != size) return EINVAL;
        auto* const rest = nodes.back()->next;
        std::stable_sort(nodes.begin(), nodes.end(), [](const auto* a, const auto* b) {
          return std::string_view(a->ca_name) < std::string_view(b->ca_name);
        });
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          nodes[i]->next = i + 1 < nodes.size() ? nodes[i + 1] : rest;
        }
        *head = nodes.front();
        return 0;
      },
      ENOMEM);
}

}  // extern "C"
