#include "softib/subnet/node_attributes.hpp"

#include <algorithm>

#include "softib/core/hca_ports.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::NodeInfo;
using ipoib::wire::NodeRecord;
using ipoib::wire::PortInfo;

constexpr std::uint8_t kOneLane = 1;  // of VLCap
constexpr std::uint8_t kPhysicalPolling = 2;
constexpr std::uint8_t kPhysicalDisabled = 3;
constexpr std::uint8_t kPhysicalLinkUp = 5;
constexpr std::uint8_t kWidths1xAnd4x = 3;
constexpr std::uint8_t kSpeedsUpToQdr = 7;

/// Values common to both ends of a cable.
PortInfo link_info(const PortAttributes& port) {
  PortInfo info;
  info.link_width_enabled = info.link_width_supported = kWidths1xAnd4x;
  info.link_width_active = port.width;
  info.link_speed_enabled = info.link_speed_supported = kSpeedsUpToQdr;
  info.link_speed_active = port.speed;
  info.port_state = static_cast<std::uint8_t>(port.state);
  info.physical_state = port.state == PortState::down ? kPhysicalPolling : kPhysicalLinkUp;
  info.neighbor_mtu = port.mtu;
  info.mtu_capability = port.max_mtu;
  info.vl_capability = port.vl_capability;
  info.operational_vls = port.operational_vls;
  if (port.vl_capability > kOneLane) {
    info.vl_arbitration_high_cap = info.vl_arbitration_low_cap = LaneTables::kArbitrationEntries;
  }
  return info;
}

/// The PortInfo of an external port of a switch.
PortInfo external_port_info(const SubnetManager& manager, const Node& node, std::uint8_t port) {
  const ExternalPort& external = manager.switches()[*node.switch_index].ports[port];
  PortAttributes attributes = node.port;
  attributes.state = PortState::down;
  if (external.peer.kind == Peer::Kind::node) {
    attributes = manager.node(external.peer.index)->port;
  } else if (external.peer.kind == Peer::Kind::switch_port) {
    attributes.state = external.peer.state;
    attributes.width = external.width;
    attributes.speed = external.speed;
    attributes.mtu = external.mtu;
  }
  PortInfo info = link_info(attributes);
  info.operational_vls = external.operational_vls;
  info.enforces_inbound = external.filter.inbound;
  info.enforces_outbound = external.filter.outbound;
  info.tuning = external.tuning;
  info.gid_prefix = 0;  // external ports of a switch have no GIDs and no LID (IBA 14.2.5.6)
  info.guid_capability = 0;
  info.local_port = port;
  return info;
}

}  // namespace

std::optional<std::uint8_t> switch_port(const Node& node) {
  const SwitchPort port = node.attachment.port;
  return port <= kMaxNumberedPort ? std::optional(static_cast<std::uint8_t>(port)) : std::nullopt;
}

std::uint8_t switch_port_count(const SubnetManager& manager, const Node& node) {
  return static_cast<std::uint8_t>(manager.switches()[*node.switch_index].port_count);
}

NodeInfo node_info(const SubnetManager& manager, const Node& node) {
  const bool is_switch = node.switch_index.has_value();
  NodeInfo info;
  info.type = is_switch ? NodeInfo::kSwitch : NodeInfo::kChannelAdapter;
  info.ports = is_switch ? switch_port_count(manager, node) : node.port.hca_ports;
  info.system_image_guid = info.node_guid = node.port.node_guid;
  info.port_guid = node.port.port_guid;
  info.partition_capacity = kPKeyTableSize;
  info.device_id = kDeviceId;
  info.revision = kHardwareRevision;
  info.local_port = is_switch ? std::uint8_t{0} : node.port.number;
  info.vendor_id = kVendorId;
  return info;
}

std::array<char, NodeRecord::kDescriptionSize> node_description(const Node& node) {
  static_assert(kMaxNodeName < NodeRecord::kDescriptionSize);
  std::array<char, NodeRecord::kDescriptionSize> description{};
  const std::string& text = node.description.empty() ? node.name : node.description;
  std::copy_n(text.begin(), std::min(text.size(), description.size()), description.begin());
  return description;
}

PortInfo port_info(const PortAttributes& port) {
  PortInfo info = link_info(port);
  // A port that is down is polling if no SM has configured it, else it was disabled.
  const bool is_configured = ipoib::is_unicast(port.sm_lid);
  if (port.state == PortState::down && is_configured) info.physical_state = kPhysicalDisabled;
  info.gid_prefix = port.gid_prefix;
  info.lid = port.lid;
  info.lmc = port.lmc;
  info.sm_lid = port.sm_lid;
  info.sm_sl = port.sm_sl;
  info.tuning = kUsualTuning;
  info.capability_mask = kCapabilitySystemImageGuid | kCapabilityClientReregister;
  const bool is_sm = ipoib::is_unicast(port.lid) && port.lid == port.sm_lid;
  if (is_sm) info.capability_mask |= kCapabilityIsSm;
  if (port.vl_capability > kOneLane) info.capability_mask |= kCapabilitySlMapping;
  return info;
}

PortInfo port_info(const SubnetManager& manager, const Node& node, std::uint8_t port) {
  const bool is_switch = node.switch_index.has_value();
  if (is_switch && port != 0) return external_port_info(manager, node, port);
  const Node* const own = is_switch ? &node : manager.port_of_hca(node, port);
  PortInfo info = port_info(own != nullptr ? own->port : HcaPorts(node.port)[port]);
  info.local_port = port;
  // Port 0 of a switch has no link and so no lanes; what it says of SLs is about the other ports.
  if (is_switch) info.vl_arbitration_high_cap = info.vl_arbitration_low_cap = 0;
  if (!manager.has_own_sm()) info.capability_mask |= kCapabilityTrap;
  if (own != nullptr) info.tuning = own->tuning;
  return info;
}

}  // namespace softib::subnet
