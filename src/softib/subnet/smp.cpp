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
  const Switches& switches = manager.switches();
  if (!target.is_switch()) {
    const auto port = switch_port(*target.node);
    if (exit != target.node->port.number || !port || is_down(*target.node)) return false;
    target.node = &switches[target.node->attachment.switch_index].node;
    target.entry_port = *port;
    return true;
  }
  const SwitchIndex from = *target.node->switch_index;
  if (exit == 0 || exit > switches[from].port_count) return false;
  const Peer peer = switches.peer(from, exit);
  if (peer.kind == Peer::Kind::switch_port && carries(peer.state, true)) {
    target.node = &switches[peer.index].node;
    target.entry_port = static_cast<std::uint8_t>(peer.port);
    return true;
  }
  const Node* const next = peer.kind == Peer::Kind::node ? manager.node(peer.index) : nullptr;
  if (next == nullptr || is_down(*next)) return false;
  target.node = next;
  target.index = peer.index;
  target.entry_port = next->port.number;
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
bool find(Lid lid, const SubnetManager& manager, SmpTarget& target) {
  if (!ipoib::is_unicast(lid)) return false;
  if (target.node->port.has(lid)) return true;
  if (is_down(*target.node)) return false;
  const Switches& switches = manager.switches();
  std::uint8_t entry = switch_port(*target.node).value_or(0);
  const Route route = follow(switches, target.node->attachment.switch_index, lid, true,
                             [&](SwitchIndex at, SwitchPort exit) {
                               entry = static_cast<std::uint8_t>(switches.peer(at, exit).port);
                             });
  if (route.end == RouteEnd::switch_) {
    target = {&switches[route.index].node, 0, entry, {}};
    return target.node->port.has(lid);
  }
  const Node* const node =
      route.end == RouteEnd::node ? manager.node(static_cast<NodeIndex>(route.index)) : nullptr;
  if (node == nullptr || !node->port.has(lid) || is_down(*node)) return false;
  target = {node, route.index, node->port.number, {}};
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
  target = {from, sender, from->port.number, {}};
  if (is_directed(header)) {
    if (!is_valid_directed_route(packet, header)) return SmpRoute::invalid;
    return walk(packet, hop_count(header), manager, target) ? SmpRoute::found
                                                            : SmpRoute::unreachable;
  }
  return find(packet.dlid, manager, target) ? SmpRoute::found : SmpRoute::unreachable;
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
