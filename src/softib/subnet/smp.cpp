// LID-routed SMP (IBA 14.2.1.1), directed-route SMP (14.2.1.2):
//
//   0        24      32      34      36     64     128            192           256
//   | header | M_Key | -                    | data | -                          |
//   | header | M_Key | DrSLID | DrDLID | -  | data | initial path | return path |
//
// In the header of a directed-route SMP, the direction bit D is the first bit of the status, and
// the class-specific bytes are hop pointer and hop count. path[1..hop count] are the exit ports.
#include "softib/subnet/smp.hpp"

#include <algorithm>

#include "softib/subnet/node_attributes.hpp"

namespace softib::subnet {

using ipoib::wire::MadHeader;

namespace {

constexpr std::size_t kDrSlidOffset = 32;
constexpr std::size_t kDrDlidOffset = 34;
constexpr std::size_t kHopPointerOffset = 6;
constexpr std::size_t kInitialPathOffset = 128;
constexpr std::size_t kReturnPathOffset = 192;

std::size_t hop_count(const MadHeader& header) { return header.class_specific & 0xff; }

bool is_down(const Node& node) { return node.port.state == PortState::down; }

bool is_valid_directed_route(const MadPacket& packet, const MadHeader& header) {
  const auto lid_at = [&](std::size_t offset) {
    return Lid(ipoib::load_be<std::uint16_t>(&packet.mad[offset]));
  };
  return hop_count(header) <= kMaxHops && (header.status & kSmpDirectionBit) == 0 &&
         header.class_specific >> 8 == 0 && lid_at(kDrSlidOffset) == ipoib::kPermissiveLid &&
         lid_at(kDrDlidOffset) == ipoib::kPermissiveLid;
}

/// Follows one cable. Returns false if there is none, or it is down.
bool take_hop(std::uint8_t exit, const SubnetManager& manager, SmpTarget& target) {
  if (target.is_switch) {
    const Node* next = exit == 0 ? nullptr : manager.node(static_cast<NodeIndex>(exit - 1));
    if (exit > switch_port_count(manager) || next == nullptr || is_down(*next)) return false;
    target.node = next;
    target.index = static_cast<NodeIndex>(exit - 1);
    target.is_switch = false;
    target.entry_port = next->port.number;
    return true;
  }
  const auto port = switch_port(target.index);
  if (exit != target.node->port.number || !port || is_down(*target.node)) return false;
  target.node = &manager.the_switch();
  target.is_switch = true;
  target.entry_port = *port;
  return true;
}

bool walk(const MadPacket& packet, std::size_t hops, const SubnetManager& manager,
          SmpTarget& target) {
  for (std::size_t hop = 1; hop <= hops; ++hop) {
    if (!take_hop(packet.mad[kInitialPathOffset + hop], manager, target)) return false;
    target.return_path[hop] = target.entry_port;
  }
  return true;
}

/// Finds the destination of a LID-routed packet. A port reaches itself even if it is down.
bool find(Lid lid, NodeIndex sender, const SubnetManager& manager, SmpTarget& target) {
  if (!ipoib::is_unicast(lid)) return false;
  if (target.node->port.has(lid)) return true;
  if (lid == manager.the_switch().port.lid) {
    target = {&manager.the_switch(), true, 0, 0, {}};
    return true;
  }
  const auto index = manager.node_at(lid);
  const Node* const node = manager.node(index);
  if (node == nullptr || !node->port.has(lid) || (*index != sender && is_down(*node))) {
    return false;
  }
  target = {node, false, *index, node->port.number, {}};
  return true;
}

}  // namespace

std::uint64_t m_key_of(const MadPacket::Bytes& mad) {
  return ipoib::load_be<std::uint64_t>(&mad[ipoib::wire::kMadHeaderSize]);
}

bool is_directed(const MadHeader& header) {
  return header.management_class == ipoib::wire::mgmt_class::kSubnDirected;
}

SmpRoute resolve_target(const MadPacket& packet, const MadHeader& header, NodeIndex sender,
                        const SubnetManager& manager, SmpTarget& target) {
  const Node* const from = manager.node(sender);
  target = {from, false, sender, from->port.number, {}};
  if (is_directed(header)) {
    if (!is_valid_directed_route(packet, header)) return SmpRoute::invalid;
    return walk(packet, hop_count(header), manager, target) ? SmpRoute::found
                                                            : SmpRoute::unreachable;
  }
  return find(packet.dlid, sender, manager, target) ? SmpRoute::found : SmpRoute::unreachable;
}

void write_return_path(const SmpTarget& target, const MadHeader& header, MadPacket::Bytes& mad) {
  if (!is_directed(header)) return;
  std::copy_n(target.return_path.begin(), hop_count(header) + 1, mad.begin() + kReturnPathOffset);
}

void finish_route(const SmpTarget& target, const MadHeader& header, MadPacket::Bytes& mad) {
  if (!is_directed(header)) return;
  write_return_path(target, header, mad);
  mad[kHopPointerOffset] = static_cast<std::uint8_t>(hop_count(header) + 1);
}

}  // namespace softib::subnet
