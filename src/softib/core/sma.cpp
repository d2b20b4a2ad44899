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

constexpr std::uint16_t kUnsupportedVersion = 1 << 2;
constexpr std::uint16_t kUnsupportedMethodAttribute = 3 << 2;
constexpr std::uint16_t kInvalidField = 7 << 2;

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

/// One attribute of a node, or the status of the refusal.
std::optional<Data> read_attribute(const Target& target, const MadHeader& header,
                                   const SubnetManager& manager, std::uint16_t& status) {
  const Node& node = *target.node;
  const bool is_switch = &node == &manager.the_switch();
  const std::uint32_t modifier = header.attribute_modifier;
  Data data{};
  status = 0;
  switch (header.attribute_id) {
    case kNodeDescription: {
      const auto text = node_description(node);
      std::copy(text.begin(), text.end(), data.begin());
      return data;
    }
    case ipoib::wire::attribute::kNodeInfo: {
      auto info = node_info(manager, node);
      info.local_port = target.entry_port;
      info.emit(data);
      return data;
    }
    case ipoib::wire::attribute::kPortInfo: {
      const std::uint32_t last = is_switch ? switch_port_count(manager) : 1;
      // On an HCA, 0 is the port that the packet came in by.
      const std::uint32_t port = modifier == 0 && !is_switch ? 1 : modifier;
      if (port > last) break;
      auto info = port_info(manager, node, static_cast<std::uint8_t>(port));
      info.local_port = target.entry_port;
      info.emit(data);
      return data;
    }
    case kSwitchInfo:
      if (!is_switch) break;
      return switch_info(manager);
    case kLinearForwardingTable:
      if (!is_switch || modifier >= kUnicastBlocks) break;
      return forwarding_block(manager, modifier);
    case kGuidInfo:
      if (modifier != 0) break;
      ipoib::store_be(data.data(), node.port.port_guid.value());
      return data;
    case kPKeyTable: {
      if ((modifier & 0xffff) != 0) break;
      ipoib::ByteWriter writer(data);
      for (const auto key : node.port.pkeys) writer.u16(key.value());
      return data;
    }
    case kSmInfo:
      if (&node != manager.node(SubnetManager::kSmNode)) break;
      return sm_info(manager);
    default:
      status = kUnsupportedMethodAttribute;
      return std::nullopt;
  }
  status = kInvalidField;
  return std::nullopt;
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

SmaAnswer answer_smp(const MadPacket& packet, NodeIndex sender, const SubnetManager& manager) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header) return {};
  const bool is_directed = header->management_class == ipoib::wire::mgmt_class::kSubnDirected;
  const bool is_smp = is_directed || header->management_class == ipoib::wire::mgmt_class::kSubnLid;
  if (!is_smp) return {};
  if (header->is_response()) return {SmaVerdict::response, 0, {}};

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
  if (!target || target->node == nullptr) return {SmaVerdict::unreachable, 0, {}};

  SmaAnswer answer{SmaVerdict::answered, 0, packet};
  std::optional<Data> data;
  if (header->class_version != kClassVersion) {
    answer.status = kUnsupportedVersion;
  } else if (header->method != method::kGet) {
    answer.status = kUnsupportedMethodAttribute;
  } else {
    data = read_attribute(*target, *header, manager, answer.status);
  }
  std::swap(answer.packet.slid, answer.packet.dlid);
  std::swap(answer.packet.source, answer.packet.destination);
  auto& mad = answer.packet.mad;
  MadHeader reply = *header;
  reply.method = method::kGetResp;
  reply.status = static_cast<std::uint16_t>(answer.status | (is_directed ? kDirectionBit : 0));
  reply.emit(mad);
  if (data) std::copy(data->begin(), data->end(), mad.begin() + kDataOffset);
  if (is_directed) {
    std::copy_n(target->return_path.begin(), hops + 1, mad.begin() + kReturnPathOffset);
  }
  return answer;
}

}  // namespace softib
