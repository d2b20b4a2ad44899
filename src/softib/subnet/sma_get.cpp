// SubnGet(): reads the attributes of nodes and of the switch.
#include <algorithm>

#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/sma.hpp"
#include "softib/subnet/sma_blocks.hpp"
#include "wire/mad.hpp"

namespace softib::subnet {

using ipoib::wire::MadHeader;
namespace mad_status = ipoib::wire::mad_status;

namespace {

/// IBA 14.2.5.4:
///
///   | linear 16, random 16, multicast capacity 16 | top 16 | default ports 24 | life time 5,
///     links changed 1, - 2 | LIDs per port 16, PartitionEnforcementCap 16 |
///   | InboundEnforcementCap 1, OutboundEnforcementCap 1, - | ...
SmpData switch_info(const SubnetManager& manager, SwitchIndex index) {
  const SwitchSettings& settings = manager.switches()[index].settings;
  SmpData data{};
  ipoib::ByteWriter writer(data);
  writer.u16(ipoib::kFirstMulticastLid.value());
  writer.u16(0);
  writer.u16(kMaxGroups);
  writer.u16(manager.has_own_sm() ? kSwitchLid.value() : settings.linear_top);
  writer.u8(settings.default_port);
  writer.u8(settings.default_primary_port);
  writer.u8(settings.default_not_primary_port);
  writer.u8(static_cast<std::uint8_t>(settings.life_time << kLifeTimeShift |
                                      (settings.links_changed ? kLinksChangedBit : 0)));
  writer.u16(0);
  writer.u16(kPKeyTableSize);
  writer.u8(kEnforcementBits);
  return data;
}

/// IBA 14.2.5.10: for each of a block of 64 LIDs, the port.
SmpData forwarding_block(const LinearForwardingTable& routes, std::uint32_t block) {
  SmpData data;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto exit = routes.at(Lid(static_cast<std::uint16_t>(block * data.size() + i)));
    data[i] = exit && *exit <= kMaxNumberedPort ? static_cast<std::uint8_t>(*exit) : kNoPort;
  }
  return data;
}

/// IBA 14.2.5.12: for each of 32 multicast LIDs, a bit set of 16 ports; bit i is port
/// 16 * position + i.
SmpData multicast_block(const MulticastForwardingTable& groups, const MulticastBlock& block) {
  SmpData data;
  ipoib::ByteWriter writer(data);
  for (std::size_t i = 0; i < MulticastBlock::kGroups; ++i) {
    const PortSet& exits = groups.at(block.group(i));
    std::uint16_t ports = 0;
    for (unsigned bit = 0; bit < MulticastBlock::kPorts; ++bit) {
      const auto at = block.in_set(bit);
      if (at && exits[*at]) ports |= static_cast<std::uint16_t>(1U << bit);
    }
    writer.u16(ports);
  }
  return data;
}

SmpData sm_info(const SubnetManager& manager) {
  // IBA 14.2.5.13: | GUID 64 | SM_Key 64, read as 0 | activity count 32 | priority 4, state 4 |
  constexpr std::uint8_t kMaster = 3;
  SmpData data{};
  ipoib::ByteWriter writer(data);
  writer.u64(manager.node(kSubnetNode)->port.port_guid.value());
  writer.zeros(8 + 4);
  writer.u8(kMaster);
  return data;
}

template <class Attribute>
SmpData emitted(const Attribute& attribute) {
  SmpData data{};
  attribute.emit(data);
  return data;
}

SmpData node_info_data(const SubnetManager& manager, const SmpTarget& target) {
  auto info = node_info(manager, *target.node);
  info.local_port = target.entry_port;
  return emitted(info);
}

std::optional<SmpData> port_info_data(const ManagedState& state, const SmpTarget& target,
                                      std::uint32_t port, std::uint64_t m_key) {
  const SubnetManager& manager = state.manager;
  // On an HCA, 0 is the port that received the packet.
  if (port == 0 && !target.is_switch()) port = target.entry_port;
  const auto ports =
      target.is_switch() ? switch_port_count(manager, *target.node) : target.node->port.hca_ports;
  if (port > ports) return std::nullopt;
  auto info = port_info(manager, *target.node, static_cast<std::uint8_t>(port));
  info.local_port = target.entry_port;
  const Node* const own =
      target.is_switch() ? target.node : manager.port_of_hca(*target.node, port);
  const auto index = own != nullptr ? manager.find(own->port.port_guid) : std::nullopt;
  const bool is_manager =
      !target.is_switch() && state.is_manager && index && state.is_manager(*index);
  if (is_manager) info.capability_mask |= kCapabilityIsSm;
  if (!target.is_switch() && state.violations.packets && index) {
    const auto count = [&](CheckedKey key) {
      return violation_counter(state.violations.packets(*index, key));
    };
    info.pkey_violations = count(CheckedKey::pkey);
    info.qkey_violations = count(CheckedKey::qkey);
  }
  const ManagementKey key = own != nullptr ? own->key : ManagementKey{};
  if (key.protection == 0 || key.admits(m_key)) info.m_key = key.value;
  info.m_key_protection = key.protection;
  return emitted(info);
}

SmpData node_description_data(const Node& node) {
  SmpData data{};
  const auto text = node_description(node);
  std::copy(text.begin(), text.end(), data.begin());
  return data;
}

/// The GUID table, which has one entry.
std::optional<SmpData> guid_block(const Node& node, std::uint32_t block) {
  if (block != 0) return std::nullopt;
  SmpData data{};
  ipoib::store_be(data.data(), node.port.port_guid.value());
  return data;
}

std::optional<SmpData> pkey_block(const Node& node, const Switch* at, std::uint32_t modifier) {
  const auto port = PKeyBlock::of(modifier, at);
  if (!port) return std::nullopt;
  SmpData data{};
  ipoib::ByteWriter writer(data);
  const auto& table = *port == 0 ? node.port.pkeys : at->ports[*port].filter.pkeys;
  for (const auto key : table) writer.u16(key.value());
  return data;
}

SmpData lane_block(const LaneTables& lanes, std::uint16_t attribute, const LaneBlock& block) {
  SmpData data{};
  if (attribute == smp_attribute::kSlToVlMapping) {
    std::ranges::copy(lanes.sl_to_vl(block.in, block.out), data.begin());
  } else {
    std::ranges::copy(lanes.arbitration(block.out, block.number), data.begin());
  }
  return data;
}

}  // namespace

std::optional<SmpData> get_attribute(const SmpTarget& target, const MadHeader& header,
                                     std::uint64_t m_key, const ManagedState& state,
                                     std::uint16_t& status) {
  const SubnetManager& manager = state.manager;
  const Node& node = *target.node;
  const bool is_sm = manager.has_own_sm() && &node == manager.node(kSubnetNode);
  const std::uint32_t modifier = header.attribute_modifier;
  status = mad_status::kInvalidField;
  const Switch* const at = target.is_switch() ? &manager.switches()[*node.switch_index] : nullptr;
  switch (header.attribute_id) {
    case smp_attribute::kNodeDescription:
      return node_description_data(node);
    case ipoib::wire::attribute::kNodeInfo:
      return node_info_data(manager, target);
    case ipoib::wire::attribute::kPortInfo:
      return port_info_data(state, target, modifier, m_key);
    case smp_attribute::kGuidInfo:
      return guid_block(node, modifier);
    case smp_attribute::kPKeyTable:
      return pkey_block(node, at, modifier);
    case smp_attribute::kSlToVlMapping:
    case smp_attribute::kVlArbitration: {
      const auto block = LaneBlock::of(header.attribute_id, modifier, node);
      if (!block) return std::nullopt;
      return lane_block(node.lanes, header.attribute_id, *block);
    }
    case smp_attribute::kSmInfo:
      return is_sm ? std::optional(sm_info(manager)) : std::nullopt;
    default:
      break;
  }
  if (at == nullptr) {
    status = mad_status::kUnsupportedMethodAttribute;
    return std::nullopt;
  }
  switch (header.attribute_id) {
    case smp_attribute::kSwitchInfo:
      return switch_info(manager, *node.switch_index);
    case smp_attribute::kLinearForwardingTable:
      if (modifier >= kUnicastBlocks) return std::nullopt;
      return forwarding_block(at->routes, modifier);
    case smp_attribute::kMulticastForwardingTable: {
      const auto block = MulticastBlock::parse(modifier);
      return block ? std::optional(multicast_block(at->groups, *block)) : std::nullopt;
    }
    default:
      status = mad_status::kUnsupportedMethodAttribute;
      return std::nullopt;
  }
}

}  // namespace softib::subnet
