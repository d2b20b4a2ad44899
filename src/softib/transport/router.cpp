#include "softib/transport/router.hpp"

#include <array>

#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/hca/large_packet.hpp"
#include "softib/transport/process_slot.hpp"

namespace softib::transport {

using ipoib::wire::MadHeader;

namespace {

/// Packets that are looked at together for a common destination.
constexpr std::size_t kChunk = 64;

bool is_mad(const OutgoingPacket& packet) { return packet.destination <= ipoib::wire::kGsiQpn; }

/// Whether they go to the same places.
bool alike(const OutgoingPacket& a, const OutgoingPacket& b) {
  if (a.dlid != b.dlid || is_mad(a) != is_mad(b)) return false;
  return ipoib::is_multicast(a.dlid) ||
         QpnLayout::slot(a.destination) == QpnLayout::slot(b.destination);
}

std::size_t gather(const OutgoingPacket& packet, std::span<std::uint8_t> to) {
  const auto octets = packet.size();
  if (octets > to.size()) return 0;
  write_packet(packet, to.data());
  return octets;
}

/// Where a MAD goes. A response to subnet management goes by its transaction id alone: who asked
/// may have no LID.
std::optional<NodeIndex> destination_of(const MadPacket& packet, const MadHeader& header,
                                        const fabric::Fabric& fabric) {
  if (!header.is_response() && packet.dlid == Lid()) return std::nullopt;
  if (!header.is_response() && is_served_by_subnet(header.management_class)) return kSubnetNode;
  if (header.is_response() && is_smp(header.management_class)) {
    return MadRoute::of(header.transaction_id).node;
  }
  return fabric.node_at(packet.dlid);
}

/// Subnet management starts and ends on the node itself (IBA 14.2.2: a hop count of zero), and
/// needs no link.
bool is_local_smp(const MadPacket& packet, const MadHeader& header, bool names_sender) {
  constexpr std::size_t kHopCountOctet = 7;
  if (header.management_class == ipoib::wire::mgmt_class::kSubnDirected) {
    return packet.mad[kHopCountOctet] == 0;
  }
  return names_sender;
}

}  // namespace

void Router::send(std::span<const OutgoingPacket> batch, Patience patience) {
  if (fabric_.port_state(node_) != PortState::active) {
    count(fabric::PortCounter::drop_port_not_active, count_packets(batch));
    return;
  }
  for (; batch.size() > kChunk; batch = batch.subspan(kChunk)) {
    send_chunk(batch.first(kChunk), patience);
  }
  send_chunk(batch, patience);
}

/// Brings together what goes to one destination, in order, so that it can travel in one message.
void Router::send_chunk(std::span<const OutgoingPacket> chunk, Patience patience) {
  std::array<bool, kChunk> done{};
  std::array<const OutgoingPacket*, kChunk> together;
  for (std::size_t first = 0; first < chunk.size(); ++first) {
    if (done[first]) continue;
    std::size_t count = 0;
    for (std::size_t i = first; i < chunk.size(); ++i) {
      if (done[i] || !alike(chunk[first], chunk[i])) continue;
      together[count++] = &chunk[i];
      done[i] = true;
    }
    send_alike({together.data(), count}, patience);
  }
}

void Router::send_alike(Packets packets, Patience patience) {
  if (is_mad(*packets.front())) return send_mads(packets, patience);
  std::uint64_t octets = 0;
  for (const auto* packet : packets) octets += hca::octets_of(*packet);
  count(fabric::PortCounter::sent_packets, count_packets(packets));
  count(fabric::PortCounter::sent_octets, octets);
  if (ipoib::is_multicast(packets.front()->dlid)) {
    multicast(packets, patience);
  } else {
    unicast(packets, patience);
  }
}

void Router::unicast(Packets packets, Patience patience) {
  const auto& first = *packets.front();
  const auto node = fabric_.node_at(first.dlid);
  if (!node) return count(fabric::PortCounter::drop_unknown_lid, count_packets(packets));
  if (fabric_.port_state(*node) != PortState::active) {
    return count(fabric::PortCounter::drop_port_not_active, count_packets(packets));
  }
  deliver({*node, QpnLayout::slot(first.destination)}, packets, patience);
}

/// A queue pair may talk to the GSI of a port, as the MAD layer does.
void Router::send_mads(Packets packets, Patience patience) {
  for (const auto* packet : packets) {
    std::array<std::uint8_t, MadPacket::kPacketSize> octets;
    const std::size_t size = gather(*packet, octets);
    if (size == 0) {
      count(fabric::PortCounter::drop_malformed, packet->gso.packets);
    } else {
      send_mad({octets.data(), size}, patience);
    }
  }
}

void Router::multicast(Packets packets, Patience patience) {
  const auto group = fabric_.group(packets.front()->dlid);
  if (!group || *group == subnet::GroupForwarding{})
    return count(fabric::PortCounter::drop_unknown_lid, count_packets(packets));
  for (NodeIndex node = 0; node < kMaxNodes; ++node) {
    if (!group->receivers[node] || fabric_.port_state(node) != PortState::active) continue;
    count(fabric::PortCounter::multicast_copies,
          deliver_to_all(node, [&](PlaceAddress to) { return deliver(to, packets, patience); }));
  }
}

/// Returns the sum of what `deliver` has delivered to each process of a node.
template <class Deliver>
std::size_t Router::deliver_to_all(NodeIndex node, Deliver deliver) {
  std::size_t delivered = 0;
  for (auto places = fabric_.occupied(node); places != 0; places &= places - 1) {
    const auto place = static_cast<std::uint32_t>(__builtin_ctzll(places));
    delivered += deliver(PlaceAddress{node, place});
  }
  return delivered;
}

bool Router::is_occupied(PlaceAddress place) const {
  return (fabric_.occupied(place.node) >> place.place & 1) != 0;
}

std::size_t Router::deliver(PlaceAddress to, Packets packets, Patience patience) {
  if (!is_occupied(to)) {
    count(fabric::PortCounter::drop_empty_place, count_packets(packets));
    return 0;
  }
  Delivery why = Delivery::delivered;
  std::uint64_t lost = 0;
  const std::size_t delivered = wire_.send(to, packets, patience, why, lost);
  count_lost(lost);
  count_undelivered(to, why, count_packets(packets.subspan(delivered)));
  return count_packets(packets.first(delivered));
}

bool Router::deliver_mad(PlaceAddress to, ConstBytes packet, Patience patience) {
  if (!is_occupied(to)) {
    count(fabric::PortCounter::drop_empty_place);
    return false;
  }
  std::uint64_t lost = 0;
  const Delivery why = wire_.send_mad(to, packet, patience, lost);
  count_lost(lost);
  count_undelivered(to, why, 1);
  return why == Delivery::delivered;
}

/// Packets that had been delivered to a process, and died with it.
void Router::count_lost(std::uint64_t packets) {
  if (packets != 0) count(fabric::PortCounter::drop_lost_peer, packets);
}

void Router::count_undelivered(PlaceAddress to, Delivery why, std::size_t packets) {
  switch (why) {
    case Delivery::delivered:
      break;
    case Delivery::congested:
    case Delivery::refused:
      count(fabric::PortCounter::drop_congested, packets);
      break;
    case Delivery::empty_place:
      count(fabric::PortCounter::drop_empty_place, packets);
      clean_place(folder_, fabric_, to.node, to.place);
      break;
    case Delivery::lost:
      count(fabric::PortCounter::drop_lost_peer, packets);
      clean_place(folder_, fabric_, to.node, to.place);
      break;
  }
}

/// A port that is not active carries subnet management only, one that is down nothing (IBA 7.2.7).
bool Router::may_pass(NodeIndex node, bool subnet_management) const {
  const auto state = fabric_.port_state(node);
  return subnet_management ? state != PortState::down : state == PortState::active;
}

void Router::send_mad(ConstBytes octets, Patience patience) {
  const auto packet = MadPacket::parse(octets);
  if (!packet) return count(fabric::PortCounter::drop_malformed);
  const auto header = MadHeader::parse(packet->mad);
  if (!header) return count(fabric::PortCounter::drop_malformed);
  const bool smp = is_smp(header->management_class);
  const auto node = destination_of(*packet, *header, fabric_);
  if (!node) return count(fabric::PortCounter::drop_unknown_lid);
  const bool local = smp && is_local_smp(*packet, *header, fabric_.node_at(packet->dlid) == node_);
  if (!local && (!may_pass(node_, smp) || !may_pass(*node, smp))) {
    return count(fabric::PortCounter::drop_port_not_active);
  }
  if (!header->is_response() || *node == kSubnetNode) return send_mad_to(*node, octets, patience);
  count_sent(octets);
  deliver_mad({*node, MadRoute::of(header->transaction_id).slot}, octets, patience);
}

void Router::send_mad_to(NodeIndex node, ConstBytes octets, Patience patience) {
  count_sent(octets);
  const auto delivered = deliver_to_all(
      node, [&](PlaceAddress to) { return deliver_mad(to, octets, patience) ? 1U : 0U; });
  if (delivered == 0) count(fabric::PortCounter::drop_mad_no_agent);
}

void Router::count_sent(ConstBytes packet) {
  count(fabric::PortCounter::sent_packets);
  count(fabric::PortCounter::sent_octets, packet.size());
}

bool Router::nudge(NodeIndex node) {
  std::uint64_t lost = 0;
  const auto missed =
      deliver_to_all(node, [&](PlaceAddress to) { return wire_.nudge(to, lost) ? 0U : 1U; });
  count_lost(lost);
  return missed == 0;
}

}  // namespace softib::transport
