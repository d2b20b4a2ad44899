#include "softib/transport/router.hpp"

#include <algorithm>
#include <array>

#include "softib/core/cm_recipient.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/transport/process_slot.hpp"

namespace softib::transport {

using ipoib::wire::MadHeader;

namespace {

/// Packets of a batch that are grouped by destination together.
constexpr std::size_t kChunk = 64;

bool is_mad(const OutgoingPacket& packet) { return packet.destination <= ipoib::wire::kGsiQpn; }

/// The destination of a packet of an Ethernet port; zero if it has no GRH.
Gid destination_gid(const OutgoingPacket& packet) {
  using ipoib::wire::Grh;
  constexpr std::size_t kAt = ipoib::wire::Lrh::kSize + Grh::kSize - Gid::kSize;
  const auto front = packet.header_size != 0   ? ConstBytes(packet.header).first(packet.header_size)
                     : packet.piece_count != 0 ? packet.pieces[0]
                                               : ConstBytes{};
  if (front.size() < kAt + Gid::kSize) return {};
  Gid::Bytes gid;
  std::ranges::copy(front.subspan(kAt, gid.size()), gid.begin());
  return Gid(gid);
}

/// The purpose of a packet that has come from the network.
Purpose purpose_of(ConstBytes bytes) {
  const auto packet = ipoib::wire::ConnectedPacket::parse_headers(bytes);
  if (!packet) return Purpose::datagram;
  return ipoib::wire::is_response(packet->opcode) ? Purpose::response : Purpose::request;
}

/// Whether both go to the same processes.
bool same_destination(const OutgoingPacket& a, const OutgoingPacket& b) {
  if (a.dlid != b.dlid || is_mad(a) != is_mad(b)) return false;
  return ipoib::is_multicast(a.dlid) ||
         QpnLayout::slot(a.destination) == QpnLayout::slot(b.destination);
}

/// Copies a packet into `to`. Returns its size, or 0 if it is too large.
std::size_t gather(const OutgoingPacket& packet, std::span<std::uint8_t> to) {
  const auto size = packet.size();
  if (size > to.size()) return 0;
  write_packet(packet, to.data());
  return size;
}

/// The node that a MAD goes to. A subnet management response is routed by its transaction ID only,
/// since the requester may have no LID.
std::optional<NodeIndex> destination_of(const MadPacket& packet, const MadHeader& header,
                                        const fabric::Fabric& fabric, SwitchIndex from) {
  if (!header.is_response() && packet.dlid == Lid()) return std::nullopt;
  if (!header.is_response() && is_served_by_subnet(header.management_class)) return kSubnetNode;
  if (header.is_response() && is_smp(header.management_class)) {
    return MadRoute::of(header.transaction_id).node;
  }
  return fabric.node_at(from, packet.dlid);
}

/// Whether a subnet management packet stays on its node and so needs no link (IBA 14.2.2: a hop
/// count of zero).
bool is_local_smp(const MadPacket& packet, const MadHeader& header, bool is_to_sender) {
  constexpr std::size_t kHopCountOffset = 7;
  if (header.management_class == ipoib::wire::mgmt_class::kSubnDirected) {
    return packet.mad[kHopCountOffset] == 0;
  }
  return is_to_sender;
}

/// The slot of the process that has sent a request of communication management, or whose connection
/// manager joins a multicast group.
std::optional<std::uint32_t> watched_sender(const MadPacket& packet) {
  namespace wire = ipoib::wire;
  const auto header = MadHeader::parse(packet.mad);
  if (header && header->management_class == wire::mgmt_class::kSubnAdm) {
    const auto route = MadRoute::of(header->transaction_id);
    const bool is_join = header->method == wire::method::kSet &&
                         header->attribute_id == wire::attribute::kMcMemberRecord;
    if (is_join && route.agent == MadRoute::kOwnAgent) return route.slot;
  }
  const auto mad = wire::CmMad::parse(packet.mad);
  const auto* const req = mad ? std::get_if<wire::CmReq>(&mad->message) : nullptr;
  if (req == nullptr) return std::nullopt;
  return CommIdLayout::slot(req->local_id);
}

}  // namespace

void Router::send(std::span<const OutgoingPacket> batch, SendMode mode) {
  if (fabric_.port_state(node_) != PortState::active) {
    count(fabric::PortCounter::drop_port_not_active, count_packets(batch));
    return;
  }
  for (; batch.size() > kChunk; batch = batch.subspan(kChunk)) {
    send_chunk(batch.first(kChunk), mode);
  }
  send_chunk(batch, mode);
}

/// Sends packets, and counts those that are done with: sent, or dropped for another reason than
/// lack of room.
std::size_t Router::try_send(std::span<const OutgoingPacket> batch) {
  std::array<const OutgoingPacket*, kChunk> packets;
  batch = batch.first(std::min(batch.size(), packets.size()));
  for (std::size_t i = 0; i < batch.size(); ++i) packets[i] = &batch[i];
  const auto& first = batch.front();
  auto done = batch.size();
  if (fabric_.port_state(node_) != PortState::active) {
    count(fabric::PortCounter::drop_port_not_active, count_packets(batch));
    return done;
  }
  const bool goes_up = uplink_ != nullptr && !uplink_->is_own(destination_gid(first));
  const auto to = uplink_ == nullptr ? reachable_node(first.dlid, count_packets(batch))
                  : goes_up          ? std::nullopt
                                     : std::optional(Destination{hca_, false});
  if (goes_up) done = send_up({packets.data(), done}, SendMode::as_room_permits);
  if (to)
    done = try_deliver({to->node, QpnLayout::slot(first.destination)}, {packets.data(), done});
  std::uint64_t bytes = 0;
  for (const auto& packet : batch.first(done)) bytes += segmented_size(packet);
  if (to && to->is_counted) {
    fabric_.count_route(at_, first.dlid, count_packets(batch.first(done)), bytes);
  }
  count(fabric::PortCounter::sent_packets, count_packets(batch.first(done)));
  count(fabric::PortCounter::sent_bytes, bytes);
  return done;
}

std::size_t Router::try_deliver(ProcessAddress to, Packets packets) {
  if (!is_occupied(to)) {
    count(fabric::PortCounter::drop_empty_slot, count_packets(packets));
    return packets.size();
  }
  Delivery why = Delivery::delivered;
  std::uint64_t lost = 0;
  const auto delivered = wire_.send(to, packets, SendMode::as_room_permits, why, lost);
  count_lost(lost);
  if (why == Delivery::congested) return delivered;
  count_undelivered(to, why, count_packets(packets.subspan(delivered)));
  return packets.size();
}

bool Router::has_untaken(Lid dlid, Qpn destination) {
  if (uplink_ != nullptr) return false;  // nobody knows
  const auto node = fabric_.node_at(at_, dlid);
  return node && wire_.has_untaken({*node, QpnLayout::slot(destination)});
}

/// Sends the packets of each destination together, in order.
void Router::send_chunk(std::span<const OutgoingPacket> chunk, SendMode mode) {
  std::array<bool, kChunk> done{};
  std::array<const OutgoingPacket*, kChunk> same;
  for (std::size_t first = 0; first < chunk.size(); ++first) {
    if (done[first]) continue;
    std::size_t count = 0;
    for (std::size_t i = first; i < chunk.size(); ++i) {
      if (done[i] || !same_destination(chunk[first], chunk[i])) continue;
      same[count++] = &chunk[i];
      done[i] = true;
    }
    send_to_same({same.data(), count}, mode);
  }
}

void Router::send_to_same(Packets packets, SendMode mode) {
  if (is_mad(*packets.front())) return send_mads(packets);
  std::uint64_t bytes = 0;
  for (const auto* packet : packets) bytes += segmented_size(*packet);
  count(fabric::PortCounter::sent_packets, count_packets(packets));
  count(fabric::PortCounter::sent_bytes, bytes);
  if (uplink_ != nullptr) {
    send_by_gid(packets, mode);
  } else if (ipoib::is_multicast(packets.front()->dlid)) {
    multicast(packets, bytes, mode);
  } else {
    unicast(packets, bytes, mode);
  }
}

void Router::unicast(Packets packets, std::uint64_t bytes, SendMode mode) {
  const auto& first = *packets.front();
  const auto to = reachable_node(first.dlid, count_packets(packets));
  if (!to) return;
  if (to->is_counted) fabric_.count_route(at_, first.dlid, count_packets(packets), bytes);
  deliver({to->node, QpnLayout::slot(first.destination)}, packets, mode);
}

/// Sends packets of an Ethernet port. Those to one GID stay together.
void Router::send_by_gid(Packets packets, SendMode mode) {
  while (!packets.empty()) {
    const auto gid = destination_gid(*packets.front());
    std::size_t count = 1;
    while (count < packets.size() && destination_gid(*packets[count]) == gid) ++count;
    const auto same = packets.first(count);
    if (uplink_->is_own(gid)) {
      deliver({hca_, QpnLayout::slot(same.front()->destination)}, same, mode);
    } else {
      (void)send_up(same, mode);
    }
    packets = packets.subspan(count);
  }
}

/// Returns how many packets are done with. Those that cannot be sent are dropped and counted; but
/// those that there is no room for only if they need not be offered again.
std::size_t Router::send_up(Packets packets, SendMode mode) {
  Delivery why = Delivery::delivered;
  const auto sent = uplink_->send(packets, mode, why);
  if (sent == packets.size()) return sent;
  if (why == Delivery::congested && mode == SendMode::as_room_permits) return sent;
  const auto left = count_packets(packets.subspan(sent));
  count(why == Delivery::congested ? fabric::PortCounter::drop_congested
                                   : fabric::PortCounter::drop_unreachable,
        left);
  return packets.size();
}

void Router::deliver_from_network(ConstBytes bytes, Qpn destination) {
  if (destination > ipoib::wire::kGsiQpn) {
    OutgoingPacket packet;
    packet.add(bytes);
    packet.destination = destination;
    packet.purpose = purpose_of(bytes);
    const auto* const one = &packet;
    deliver({hca_, QpnLayout::slot(destination)}, {&one, 1}, SendMode::non_blocking);
    return;
  }
  const auto packet = MadPacket::parse(bytes);
  const auto header = packet ? MadHeader::parse(packet->mad) : std::nullopt;
  if (!header) return count(fabric::PortCounter::drop_malformed);
  if (header->management_class != ipoib::wire::mgmt_class::kCommMgt) {
    return count(fabric::PortCounter::drop_mad_no_agent);
  }
  send_cm(hca_, *packet, {bytes});
}

/// Returns the node with this LID; nullopt, and counts the packets, if they cannot get there.
std::optional<Router::Destination> Router::reachable_node(Lid dlid, std::size_t packets) {
  using subnet::RouteEnd;
  const auto way = fabric_.route(at_, dlid, false);
  switch (way.end) {
    case RouteEnd::node:
    case RouteEnd::switch_: {
      const NodeIndex node = way.end == RouteEnd::node ? way.index : kSubnetNode;
      if (fabric_.port_state(node) == PortState::active) return Destination{node, way.cables != 0};
      count(fabric::PortCounter::drop_port_not_active, packets);
      break;
    }
    case RouteEnd::link_down:
      fabric_.count_discards(way.index, way.exit, packets);
      count(fabric::PortCounter::drop_port_not_active, packets);
      break;
    case RouteEnd::no_entry:
      count(fabric::PortCounter::drop_unknown_lid, packets);
      break;
    case RouteEnd::loop:
      count(fabric::PortCounter::drop_routing_loop, packets);
      break;
  }
  return std::nullopt;
}

/// Sends packets of a queue pair to QP0 or QP1 of a port.
void Router::send_mads(Packets packets) {
  for (const auto* packet : packets) {
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    const std::size_t size = gather(*packet, bytes);
    if (size == 0) {
      count(fabric::PortCounter::drop_malformed, packet->gso.packets);
    } else {
      send_mad({bytes.data(), size});
    }
  }
}

void Router::multicast(Packets packets, std::uint64_t bytes, SendMode mode) {
  const Lid mlid = packets.front()->dlid;
  bool has_looped = false;
  const NodeSet receivers = fabric_.receivers(at_, mlid, count_packets(packets), bytes, has_looped);
  if (has_looped) count(fabric::PortCounter::drop_routing_loop, count_packets(packets));
  if (receivers.none() && fabric_.group(mlid) == subnet::GroupForwarding{})
    return count(fabric::PortCounter::drop_unknown_lid, count_packets(packets));
  for (auto i = receivers._Find_first(); i < receivers.size(); i = receivers._Find_next(i)) {
    const auto node = static_cast<NodeIndex>(i);
    if (fabric_.port_state(node) != PortState::active) continue;
    count(fabric::PortCounter::multicast_copies,
          deliver_to_all(node, [&](ProcessAddress to) { return deliver(to, packets, mode); }));
  }
}

/// Calls `deliver` for each process of a node and returns the sum of the results.
template <class Deliver>
std::size_t Router::deliver_to_all(NodeIndex node, Deliver deliver) {
  std::size_t delivered = 0;
  for (auto slots = fabric_.occupied(node); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<std::uint32_t>(__builtin_ctzll(slots));
    delivered += deliver(ProcessAddress{node, slot});
  }
  return delivered;
}

bool Router::is_occupied(ProcessAddress process) const {
  return (fabric_.occupied(process.node) >> process.slot & 1) != 0;
}

std::size_t Router::deliver(ProcessAddress to, Packets packets, SendMode mode) {
  if (!is_occupied(to)) {
    count(fabric::PortCounter::drop_empty_slot, count_packets(packets));
    return 0;
  }
  Delivery why = Delivery::delivered;
  std::uint64_t lost = 0;
  const std::size_t delivered = wire_.send(to, packets, mode, why, lost);
  count_lost(lost);
  count_undelivered(to, why, count_packets(packets.subspan(delivered)));
  return count_packets(packets.first(delivered));
}

bool Router::deliver_mad(ProcessAddress to, const MadOnWire& mad) {
  if (!is_occupied(to)) {
    count(fabric::PortCounter::drop_empty_slot);
    return false;
  }
  std::uint64_t lost = 0;
  const Delivery why = wire_.send_mad(to, mad, lost);
  count_lost(lost);
  count_undelivered(to, why, 1);
  return why == Delivery::delivered;
}

/// Counts packets that were delivered to a process that died before it read them.
void Router::count_lost(std::uint64_t packets) {
  if (packets != 0) count(fabric::PortCounter::drop_lost_peer, packets);
}

void Router::count_undelivered(ProcessAddress to, Delivery why, std::size_t packets) {
  switch (why) {
    case Delivery::delivered:
      break;
    case Delivery::congested:
    case Delivery::refused:
    case Delivery::unreachable:
      count(fabric::PortCounter::drop_congested, packets);
      break;
    case Delivery::no_process:
      count(fabric::PortCounter::drop_empty_slot, packets);
      reclaim_slot(folder_, fabric_, to.node, to.slot);
      break;
    case Delivery::lost:
      count(fabric::PortCounter::drop_lost_peer, packets);
      reclaim_slot(folder_, fabric_, to.node, to.slot);
      break;
  }
}

/// A port that is not active carries only subnet management packets; one that is down carries none
/// (IBA 7.2.7).
bool Router::may_pass(NodeIndex node, bool subnet_management) const {
  const auto state = fabric_.port_state(node);
  return subnet_management ? state != PortState::down : state == PortState::active;
}

void Router::send_mad(ConstBytes bytes, const MadOnWire& on_wire) {
  const auto packet = MadPacket::parse(bytes);
  if (!packet) return count(fabric::PortCounter::drop_malformed);
  const auto header = MadHeader::parse(packet->mad);
  if (!header) return count(fabric::PortCounter::drop_malformed);
  if (uplink_ != nullptr) {
    const bool is_own = packet->grh && uplink_->is_own(packet->grh->dgid);
    if (is_own) return deliver_from_network(bytes, packet->destination);
    OutgoingPacket out;
    out.add(bytes);
    out.destination = packet->destination;
    const auto* const one = &out;
    count_sent(bytes);
    (void)send_up({&one, 1}, SendMode::non_blocking);
    return;
  }
  const bool smp = is_smp(header->management_class);
  const auto node = destination_of(*packet, *header, fabric_, at_);
  if (!node) return count(fabric::PortCounter::drop_unknown_lid);
  const bool local =
      smp && is_local_smp(*packet, *header, fabric_.node_at(at_, packet->dlid) == node_);
  if (!local && (!may_pass(node_, smp) || !may_pass(*node, smp))) {
    return count(fabric::PortCounter::drop_port_not_active);
  }
  if (header->management_class == ipoib::wire::mgmt_class::kCommMgt) {
    count_sent(on_wire.bytes);
    return send_cm(*node, *packet, on_wire);
  }
  if (!header->is_response() || *node == kSubnetNode) return send_mad_to(*node, on_wire);
  count_sent(on_wire.bytes);
  deliver_mad({*node, MadRoute::of(header->transaction_id).slot}, on_wire);
}

void Router::send_mad_to(NodeIndex node, const MadOnWire& mad) {
  count_sent(mad.bytes);
  const auto delivered =
      deliver_to_all(node, [&](ProcessAddress to) { return deliver_mad(to, mad) ? 1U : 0U; });
  if (delivered == 0) count(fabric::PortCounter::drop_mad_no_agent);
}

/// Sends a message of class 7. A request goes to all processes of the node if one of them listens
/// on the service, any other message to the process that its communication ID names. A message for
/// none of them is for the agent that speaks the protocol itself, or else for the subnet process,
/// which refuses it in the name of the node.
void Router::send_cm(NodeIndex node, const MadPacket& packet, const MadOnWire& on_wire) {
  using ipoib::wire::ServiceId;
  const auto mad = ipoib::wire::CmMad::parse(packet.mad);
  const CmRecipient recipient = mad ? recipient_of(mad->message) : CmRecipient(CommId());
  const auto deliver_to_node = [&] {
    return deliver_to_all(node,
                          [&](ProcessAddress to) { return deliver_cm(to, on_wire) ? 1U : 0U; }) > 0;
  };
  if (const auto* const service = std::get_if<ServiceId>(&recipient)) {
    if (fabric::has_listener(folder_, node, *service) && deliver_to_node()) return;
  } else if (const auto id = std::get<CommId>(recipient); id == CommId()) {
    if (!deliver_to_node()) count(fabric::PortCounter::drop_mad_no_agent);
    return;
  } else {
    const ProcessAddress to{node, CommIdLayout::slot(id)};
    const bool is_there =
        is_occupied(to) && fabric_.epoch(to.node, to.slot) == CommIdLayout::epoch(id);
    if (is_there && (deliver_cm(to, on_wire) || is_occupied(to))) return;
  }
  if (fabric::has_cm_agent(folder_, node) && deliver_to_node()) return;
  const auto delivered = deliver_to_all(
      kSubnetNode, [&](ProcessAddress to) { return deliver_mad(to, on_wire) ? 1U : 0U; });
  if (delivered == 0) count(fabric::PortCounter::drop_mad_no_agent);
}

/// Delivers a message of class 7. The recipient is watched: if it dies before it answers, the
/// sender must not wait for it.
bool Router::deliver_cm(ProcessAddress to, const MadOnWire& mad) {
  const bool delivered = deliver_mad(to, mad);
  wire_.watch(to);
  return delivered;
}

void Router::watch_sender(const MadPacket& packet) {
  const auto slot = watched_sender(packet);
  const bool is_from_own = uplink_ != nullptr && packet.grh && uplink_->is_own(packet.grh->sgid);
  const auto node = !slot         ? std::nullopt
                    : is_from_own ? std::optional(hca_)
                                  : fabric_.node_at(at_, packet.slid);
  if (node) wire_.watch({*node, *slot});
}

void Router::count_sent(ConstBytes packet) {
  count(fabric::PortCounter::sent_packets);
  count(fabric::PortCounter::sent_bytes, packet.size());
}

bool Router::wake_processes(NodeIndex node) {
  std::uint64_t lost = 0;
  const auto missed =
      deliver_to_all(node, [&](ProcessAddress to) { return wire_.wake(to, lost) ? 0U : 1U; });
  count_lost(lost);
  return missed == 0;
}

}  // namespace softib::transport
