#include "softib/fabric/checked_way.hpp"

#include <optional>

#include "ipoib/random.hpp"
#include "softib/subnet/route.hpp"
#include "wire/packet.hpp"

namespace softib::fabric {

using subnet::Direction;
using subnet::Peer;
using subnet::RouteEnd;

subnet::PacketHeaders CheckedPackets::headers_of(ConstBytes packet) {
  using namespace ipoib::wire;
  subnet::PacketHeaders headers;
  const auto lrh = Lrh::parse(packet);
  if (!lrh) return headers;
  headers.slid = lrh->slid;
  headers.dlid = lrh->dlid;
  headers.sl = lrh->sl;
  const std::size_t at = Lrh::kSize + (lrh->next_header == Lrh::kLnhGlobal ? Grh::kSize : 0);
  const auto bth = at < packet.size() ? Bth::parse(packet.subspan(at)) : std::nullopt;
  if (!bth) return headers;
  headers.pkey = bth->pkey;
  headers.destination = bth->destination;
  const bool is_datagram =
      bth->opcode == Bth::kUdSendOnly || bth->opcode == Bth::kUdSendOnlyImmediate;
  const auto deth =
      is_datagram ? Deth::parse(packet.subspan(at + Bth::kSize)) : std::optional<Deth>();
  if (deth) headers.source = deth->source;
  return headers;
}

CheckedWay::CheckedWay(Fabric& fabric, NodeIndex node, std::uint64_t seed)
    : fabric_(fabric), from_(fabric.attachment_of(node)), random_(seed) {}

bool CheckedWay::passes(const CheckedPackets& packets) {
  if (from_.port != 0 && !enters(from_, packets)) return false;
  const auto way = subnet::follow_while(
      fabric_, from_.switch_index, packets.headers.dlid, false,
      [&](SwitchIndex at, SwitchPort exit, const Peer& peer) {
        if ((peer.checks & subnet::kPKeyCheck) == 0) return true;
        if (!leaves({at, exit}, packets)) return false;
        return peer.kind == Peer::Kind::node || enters({peer.index, peer.port}, packets);
      });
  if (way.end != RouteEnd::dropped) return true;
  // The cables before the one at which they were dropped have carried them.
  unsigned left = way.cables;
  (void)subnet::follow_while(fabric_, from_.switch_index, packets.headers.dlid, false,
                             [&](SwitchIndex at, SwitchPort exit, const Peer&) {
                               if (left == 0) return false;
                               --left;
                               fabric_.count_cable(at, exit, packets.packets, packets.bytes);
                               return true;
                             });
  return false;
}

CheckedWay::Arrival CheckedWay::unicast(const CheckedPackets& packet) {
  Arrival arrival{RouteEnd::dropped};
  if (!take_first_cable(packet, arrival.delay)) return arrival;
  const auto way =
      subnet::follow_while(fabric_, from_.switch_index, packet.headers.dlid, false,
                           [&](SwitchIndex at, SwitchPort exit, const Peer& peer) {
                             return take_cable({at, exit}, peer, packet, arrival.delay);
                           });
  arrival.end = way.end;
  arrival.node = way.end == RouteEnd::node ? way.index : kSubnetNode;
  if (way.end == RouteEnd::link_down) {
    fabric_.count(way.last, CableCounter::discards, packet.packets);
  }
  return arrival;
}

std::vector<CheckedWay::Arrival> CheckedWay::multicast(const CheckedPackets& packets,
                                                       bool& has_looped) {
  std::vector<Arrival> arrivals;
  std::uint32_t first_delay = 0;
  has_looped = false;
  if (!subnet::is_group(packets.headers.dlid) || !take_first_cable(packets, first_delay)) {
    return arrivals;
  }
  NodeSet reached;
  has_looped = !subnet::spread_while(
      fabric_, from_.switch_index, subnet::group_index(packets.headers.dlid),
      [&](SwitchIndex at, SwitchPort exit, const Peer& peer, std::uint32_t delay) {
        const bool is_again = peer.kind == Peer::Kind::node && reached[peer.index];
        const bool is_taken = !is_again && take_cable({at, exit}, peer, packets, delay);
        return is_taken ? std::optional(delay) : std::nullopt;
      },
      [&](NodeIndex node, std::uint32_t delay) {
        reached.set(node);
        arrivals.push_back({RouteEnd::node, node, first_delay + delay});
      });
  return arrivals;
}

bool CheckedWay::enters(const Attachment& at, const CheckedPackets& packets) {
  if (fabric_.lets_pass(at, Direction::inbound, packets.headers.pkey)) return true;
  fabric_.count(at, CableCounter::receive_constraints, packets.packets);
  fabric_.note_violation(at, packets.headers);
  return false;
}

bool CheckedWay::leaves(const Attachment& at, const CheckedPackets& packets) {
  if (fabric_.lets_pass(at, Direction::outbound, packets.headers.pkey)) return true;
  fabric_.count(at, CableCounter::transmit_constraints, packets.packets);
  fabric_.note_violation(at, packets.headers);
  return false;
}

bool CheckedWay::is_lost(std::uint16_t loss) {
  if (loss == 0) return false;
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  ipoib::Random random(random_.fetch_add(kStep, std::memory_order_relaxed));
  return random.next() % LinkFaults::kAlways < loss;
}

/// The cable from the node to its switch.
bool CheckedWay::take_first_cable(const CheckedPackets& packets, std::uint32_t& delay) {
  if (from_.port == 0) return true;
  const auto faults = fabric_.cable_faults(from_);
  delay += faults.delay;
  if (is_lost(faults.loss)) {
    fabric_.count(from_, CableCounter::receive_errors, packets.packets);
    return false;
  }
  return enters(from_, packets);
}

bool CheckedWay::take_cable(const Attachment& from, const Peer& to, const CheckedPackets& packets,
                            std::uint32_t& delay) {
  const bool is_node = to.kind == Peer::Kind::node;
  const Attachment entry{to.index, to.port};
  const bool is_checked = (to.checks & subnet::kPKeyCheck) != 0;
  if (is_checked && !leaves(from, packets)) return false;
  if (!is_node) fabric_.count_cable(from.switch_index, from.port, packets.packets, packets.bytes);
  if ((to.checks & subnet::kCableFault) != 0) {
    const auto faults = fabric_.cable_faults(from);
    delay += faults.delay;
    if (is_lost(faults.loss)) {
      if (is_node) {
        fabric_.count(to.index, PortCounter::drop_cable_fault, packets.packets);
      } else {
        fabric_.count(entry, CableCounter::receive_errors, packets.packets);
      }
      return false;
    }
  }
  return is_node || !is_checked || enters(entry, packets);
}

}  // namespace softib::fabric
