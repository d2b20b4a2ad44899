// LID-routed SMP (IBA 14.2.1.1), directed-route SMP (14.2.1.2):
//
//   0        24      32      34      36     64     128            192           256
//   | header | M_Key | -                    | data | -                          |
//   | header | M_Key | DrSLID | DrDLID | -  | data | initial path | return path |
//
// In the header of the second, status has the direction bit D in front, and the class-specific
// octets are hop pointer and hop count. path[1..hop count] are the ports to leave by.
#include "softib/core/sma.hpp"

#include <algorithm>

#include "softib/core/node_attributes.hpp"
#include "wire/mad.hpp"

namespace softib {

namespace {

using ipoib::wire::MadHeader;
namespace method = ipoib::wire::method;
namespace mad_status = ipoib::wire::mad_status;

constexpr std::size_t kDataOffset = 64;
constexpr std::size_t kDataSize = 64;
constexpr std::size_t kDrSlidOffset = 32;
constexpr std::size_t kDrDlidOffset = 34;
constexpr std::size_t kInitialPathOffset = 128;
constexpr std::size_t kReturnPathOffset = 192;
constexpr std::size_t kMaxHops = 63;
constexpr std::uint32_t kUnicastBlocks = 0xc000 / 64;  ///< of a forwarding table
constexpr std::uint16_t kDirectionBit = 0x8000;
constexpr std::uint8_t kClassVersion = 1;

constexpr std::uint16_t kNodeDescription = 0x0010;
constexpr std::uint16_t kSwitchInfo = 0x0012;
constexpr std::uint16_t kGuidInfo = 0x0014;
constexpr std::uint16_t kPKeyTable = 0x0016;
constexpr std::uint16_t kLinearForwardingTable = 0x0019;
constexpr std::uint16_t kSmInfo = 0x0020;

using Data = std::array<std::uint8_t, kDataSize>;

/// Where a packet has come to: a node or the switch, and the port it came in by.
struct Target {
  const Node* node = nullptr;
  std::uint8_t entry_port = 1;
  std::array<std::uint8_t, kMaxHops + 1> return_path{};
};

Data switch_info(const SubnetManager& manager) {
  // IBA 14.2.5.4: | linear, random, multicast capacity 48 | top 16 | default ports 24 | ...
  Data data{};
  ipoib::ByteWriter writer(data);
  writer.u16(ipoib::kFirstMulticastLid.value());
  writer.u16(0);
  writer.u16(kMaxGroups);
  writer.u16(manager.the_switch().port.lid.value());
  return data;
}

/// IBA 14.2.5.10: a block of 64 LIDs, the port that leads to each.
Data forwarding_block(const SubnetManager& manager, std::uint32_t block) {
  constexpr std::uint8_t kNoPort = 255;
  Data data;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Lid lid(static_cast<std::uint16_t>(block * data.size() + i));
    const auto index = manager.node_at(lid);
    data[i] = index ? switch_port(*index).value_or(kNoPort) : kNoPort;
    if (lid == manager.the_switch().port.lid) data[i] = 0;
  }
  return data;
}

Data sm_info(const SubnetManager& manager) {
  // IBA 14.2.5.13: | GUID 64 | SM_Key 64, not shown | activity count 32 | priority 4, state 4 |
  constexpr std::uint8_t kMaster = 3;
  Data data{};
  ipoib::ByteWriter writer(data);
  writer.u64(manager.node(SubnetManager::kSmNode)->port.port_guid.value());
  writer.zeros(8 + 4);
  writer.u8(kMaster);
  return data;
}

template <class Attribute>
Data emitted(const Attribute& attribute) {
  Data data{};
  attribute.emit(data);
  return data;
}

Data node_info_data(const SubnetManager& manager, const Target& target) {
  auto info = node_info(manager, *target.node);
  info.local_port = target.entry_port;
  return emitted(info);
}

std::optional<Data> port_info_data(const SubnetManager& manager, const Target& target,
                                   std::uint32_t port) {
  const bool is_switch = target.node == &manager.the_switch();
  // On an HCA, 0 is the port that the packet came in by.
  if (port == 0 && !is_switch) port = 1;
  if (port > (is_switch ? switch_port_count(manager) : 1U)) return std::nullopt;
  auto info = port_info(manager, *target.node, static_cast<std::uint8_t>(port));
  info.local_port = target.entry_port;
  return emitted(info);
}

Data node_description_data(const Node& node) {
  Data data{};
  const auto text = node_description(node);
  std::copy(text.begin(), text.end(), data.begin());
  return data;
}

/// The one entry of the GUID table.
std::optional<Data> guid_block(const Node& node, std::uint32_t block) {
  if (block != 0) return std::nullopt;
  Data data{};
  ipoib::store_be(data.data(), node.port.port_guid.value());
  return data;
}

/// IBA 14.2.5.7: a block of 32 keys, which is all; the high half of the modifier is a switch's
/// port.
std::optional<Data> pkey_block(const Node& node, std::uint32_t modifier) {
  if ((modifier & 0xffff) != 0) return std::nullopt;
  Data data{};
  ipoib::ByteWriter writer(data);
  for (const auto key : node.port.pkeys) writer.u16(key.value());
  return data;
}

/// One attribute of a node; else the status of the refusal: most likely, that the node has none, or
/// no such block of it.
std::optional<Data> read_attribute(const Target& target, const MadHeader& header,
                                   const SubnetManager& manager, std::uint16_t& status) {
  const Node& node = *target.node;
  const bool is_switch = &node == &manager.the_switch();
  const bool is_sm = &node == manager.node(SubnetManager::kSmNode);
  const std::uint32_t modifier = header.attribute_modifier;
  status = mad_status::kInvalidField;
  switch (header.attribute_id) {
    case kNodeDescription:
      return node_description_data(node);
    case ipoib::wire::attribute::kNodeInfo:
      return node_info_data(manager, target);
    case ipoib::wire::attribute::kPortInfo:
      return port_info_data(manager, target, modifier);
    case kSwitchInfo:
      return is_switch ? std::optional(switch_info(manager)) : std::nullopt;
    case kLinearForwardingTable:
      if (!is_switch || modifier >= kUnicastBlocks) return std::nullopt;
      return forwarding_block(manager, modifier);
    case kGuidInfo:
      return guid_block(node, modifier);
    case kPKeyTable:
      return pkey_block(node, modifier);
    case kSmInfo:
      return is_sm ? std::optional(sm_info(manager)) : std::nullopt;
    default:
      status = mad_status::kUnsupportedMethodAttribute;
      return std::nullopt;
  }
}

/// Walks a directed route; nothing when it ends nowhere.
std::optional<Target> walk(const MadPacket& packet, NodeIndex sender, std::size_t hops,
                           const SubnetManager& manager) {
  Target target;
  target.node = manager.node(sender);
  for (std::size_t hop = 1; hop <= hops; ++hop) {
    const std::uint8_t exit = packet.mad[kInitialPathOffset + hop];
    target.return_path[hop] = target.entry_port;
    if (target.node == &manager.the_switch()) {
      if (exit == 0 || exit > switch_port_count(manager)) return std::nullopt;
      target.node = manager.node(static_cast<NodeIndex>(exit - 1));
      target.entry_port = 1;
      if (target.node == nullptr || target.node->port.state == PortState::down) return std::nullopt;
    } else {
      const auto index = manager.find(target.node->port.port_guid);
      const auto port = index ? switch_port(*index) : std::nullopt;
      if (exit != 1 || !port || target.node->port.state == PortState::down) return std::nullopt;
      target.node = &manager.the_switch();
      target.entry_port = *port;
    }
    target.return_path[hop] = target.entry_port;
  }
  return target;
}

/// A port answers itself even when it is down.
std::optional<Target> find_lid(Lid lid, NodeIndex sender, const SubnetManager& manager) {
  if (lid == manager.the_switch().port.lid) return Target{&manager.the_switch(), 0, {}};
  const auto index = manager.node_at(lid);
  if (!index) return std::nullopt;
  const Node* node = manager.node(*index);
  if (*index != sender && node->port.state == PortState::down) return std::nullopt;
  return Target{node, 1, {}};
}

}  // namespace

AgentAnswer answer_smp(const MadPacket& packet, NodeIndex sender, const SubnetManager& manager) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header) return {};
  const bool is_directed = header->management_class == ipoib::wire::mgmt_class::kSubnDirected;
  const bool is_smp = is_directed || header->management_class == ipoib::wire::mgmt_class::kSubnLid;
  if (!is_smp) return {};
  if (header->is_response()) return {AgentVerdict::response, 0, {}};

  const std::size_t hops = is_directed ? header->class_specific & 0xff : 0;
  std::optional<Target> target;
  if (is_directed) {
    // Only routes that are directed from end to end, and at their beginning.
    const bool makes_sense =
        hops <= kMaxHops && (header->status & kDirectionBit) == 0 &&
        header->class_specific >> 8 == 0 &&
        ipoib::load_be<std::uint16_t>(&packet.mad[kDrSlidOffset]) ==
            ipoib::kPermissiveLid.value() &&
        ipoib::load_be<std::uint16_t>(&packet.mad[kDrDlidOffset]) == ipoib::kPermissiveLid.value();
    if (!makes_sense) return {};
    target = walk(packet, sender, hops, manager);
  } else {
    target = find_lid(packet.dlid, sender, manager);
  }
  if (!target || target->node == nullptr) return {AgentVerdict::unreachable, 0, {}};

  std::uint16_t status = 0;
  std::optional<Data> data;
  if (header->class_version != kClassVersion) {
    status = mad_status::kUnsupportedVersion;
  } else if (header->method != method::kGet) {
    status = mad_status::kUnsupportedMethodAttribute;
  } else {
    data = read_attribute(*target, *header, manager, status);
    if (data) status = 0;
  }
  const std::uint16_t direction = is_directed ? kDirectionBit : 0;
  auto answer = answer_to(packet, *header, static_cast<std::uint16_t>(status | direction));
  answer.status = status;
  auto& mad = answer.packet.mad;
  if (data) std::copy(data->begin(), data->end(), mad.begin() + kDataOffset);
  if (is_directed) {
    std::copy_n(target->return_path.begin(), hops + 1, mad.begin() + kReturnPathOffset);
  }
  return answer;
}

}  // namespace softib
