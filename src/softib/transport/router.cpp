#include "softib/transport/router.hpp"

#include <algorithm>
#include <array>

#include "softib/core/cm_recipient.hpp"
#include "softib/core/key_violation.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/fabric/gsi_checks.hpp"
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
  const auto front = packet.front();
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

/// Where packets arrive.
bool arrives(subnet::RouteEnd end) {
  return end == subnet::RouteEnd::node || end == subnet::RouteEnd::switch_;
}

subnet::PacketHeaders headers_of(ConstBytes packet) {
  return fabric::CheckedPackets::headers_of(packet);
}
subnet::PacketHeaders headers_of(const OutgoingPacket& packet) {
  return headers_of(packet.front());
}
fabric::CheckedPackets described(const OutgoingPacket& packet) {
  return {headers_of(packet), packet.gso.packets, segmented_size(packet)};
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

Router::Router(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, Wire& wire,
               NodeIndex node, Hold hold, std::uint64_t seed)
    : folder_(folder), fabric_(fabric), wire_(wire), node_(node), hold_(std::move(hold)) {
  const auto add = [&](NodeIndex index) {
    auto& port = ports_[fabric.hca_port(index).number - 1U];
    port.emplace(fabric, index, seed);
  };
  add(node);
  const auto record = fabric.node(node);
  if (record && record->other_port != subnet::kNoOtherPort) add(record->other_port);
}

void Router::send(std::span<const OutgoingPacket> batch, SendMode mode) {
  if (batch.empty()) return;
  Port* const from = port(batch.front().port);
  if (from == nullptr) {
    return count(node_, fabric::PortCounter::drop_port_not_active, count_packets(batch));
  }
  for (; batch.size() > kChunk; batch = batch.subspan(kChunk)) {
    send_chunk(*from, batch.first(kChunk), mode);
  }
  send_chunk(*from, batch, mode);
}

/// Sends packets, and counts those that are done with: sent, or dropped for another reason than
/// lack of room.
TrySent Router::try_send(std::span<const OutgoingPacket> batch) {
  std::array<const OutgoingPacket*, kChunk> pointers;
  batch = batch.first(std::min(batch.size(), pointers.size()));
  for (std::size_t i = 0; i < batch.size(); ++i) pointers[i] = &batch[i];
  Packets packets(pointers.data(), batch.size());
  const auto dlid = batch.front().dlid;
  Port* const from = port(batch.front().port);
  const auto changes = fabric_.changes();
  const auto known = from != nullptr ? from->ways.find(changes, dlid) : std::nullopt;
  if (known) return try_arrive(*from, *known, 0, packets);
  const auto sender = from != nullptr ? fabric_.sender(from->node) : fabric::Fabric::Sender{};
  if (sender.state != PortState::active) {
    count(from != nullptr ? from->node : node_, fabric::PortCounter::drop_port_not_active,
          count_packets(packets));
    return packets.size();
  }
  if (uplink_ != nullptr) return try_send_by_gid(packets);
  const auto way = fabric_.route(from->at, dlid, false);
  const auto checks = checks_of(*from, way, sender.checks);
  if (checks == subnet::kPKeyCheck) {
    const auto passing = leading_that_pass(*from, batch);
    if (passing == 0) return 1;
    packets = packets.first(passing);
  }
  if ((checks & subnet::kCableFault) != 0) {
    send_over_faulty_cables(*from, packets, SendMode::as_room_permits);
    return packets.size();
  }
  const auto to = reachable_port(*from, way, count_packets(packets));
  if (!to) {
    (void)count_sent(from->node, packets);
    return packets.size();
  }
  if (checks == subnet::kNoChecks && way.cables == 0) from->ways.keep(changes, dlid, *to);
  return try_arrive(*from, *to, way.cables, packets);
}

/// Delivers packets at the end of their way, as far as there is room, and counts these.
std::size_t Router::try_arrive(const Port& from, const subnet::HcaPort& to, unsigned cables,
                               Packets packets) {
  const auto& first = *packets.front();
  const Recipient recipient{{to.hca, QpnLayout::slot(first.destination)}, to.number};
  const auto done = packets.first(try_deliver(from.node, recipient, packets));
  const auto bytes = count_sent(from.node, done);
  if (cables != 0) fabric_.count_route(from.at, first.dlid, count_packets(done), bytes);
  return done.size();
}

/// The same for packets of an Ethernet port.
TrySent Router::try_send_by_gid(Packets packets) {
  const auto& first = *packets.front();
  const TrySent sent =
      uplink_->is_own(destination_gid(first))
          ? try_deliver(hca_, {{hca_, QpnLayout::slot(first.destination)}}, packets)
          : send_up(packets, SendMode::as_room_permits);
  (void)count_sent(hca_, packets.first(sent.done));
  return sent;
}

/// The number of packets, from the first, that switches let pass. If it is 0, the first has been
/// dropped, and counted.
std::size_t Router::leading_that_pass(Port& from, std::span<const OutgoingPacket> batch) {
  const auto is_next = [&](const OutgoingPacket& packet) {
    // Those of one queue pair have one key.
    return headers_of(packet) == headers_of(batch.front());
  };
  std::size_t same = 1;
  while (same < batch.size() && is_next(batch[same])) ++same;
  const auto checked = described(batch.front());
  if (from.checked.passes(checked)) return same;
  count(from.node, fabric::PortCounter::sent_packets, checked.packets);
  count(from.node, fabric::PortCounter::sent_bytes, checked.bytes);
  return 0;
}

std::size_t Router::try_deliver(NodeIndex from, const Recipient& to, Packets packets) {
  if (!is_occupied(to.process)) {
    count(from, fabric::PortCounter::drop_empty_slot, count_packets(packets));
    return packets.size();
  }
  Delivery why = Delivery::delivered;
  std::uint64_t lost = 0;
  const auto delivered =
      wire_.send(to.process, to.port, packets, SendMode::as_room_permits, why, lost);
  count_lost(from, lost);
  if (why == Delivery::congested) return delivered;
  count_undelivered(from, to.process, why, count_packets(packets.subspan(delivered)));
  return packets.size();
}

bool Router::has_untaken(std::uint8_t number, Lid dlid, Qpn destination) {
  const Port* const from = port(number);
  if (uplink_ != nullptr || from == nullptr) return false;  // nobody knows
  const auto node = fabric_.node_at(from->at, dlid);
  return node && wire_.has_untaken({fabric_.hca_of(*node), QpnLayout::slot(destination)});
}

/// Sends the packets of each destination together, in order.
void Router::send_chunk(Port& from, std::span<const OutgoingPacket> chunk, SendMode mode) {
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
    send_to_same(from, {same.data(), count}, mode);
  }
}

void Router::send_to_same(Port& from, Packets packets, SendMode mode) {
  const auto& first = *packets.front();
  const auto changes = fabric_.changes();
  const auto known = is_mad(first) ? std::nullopt : from.ways.find(changes, first.dlid);
  if (known) return arrive(from, *known, 0, packets, mode);
  const auto sender = fabric_.sender(from.node);
  if (sender.state != PortState::active) {
    return count(from.node, fabric::PortCounter::drop_port_not_active, count_packets(packets));
  }
  if (is_mad(first)) return send_mads(packets);
  if (uplink_ != nullptr) {
    (void)count_sent(from.node, packets);
    return send_by_gid(packets, mode);
  }
  if (!ipoib::is_multicast(first.dlid)) {
    return unicast(from, packets, mode, sender.checks, changes);
  }
  if (fabric_.checks() != subnet::kNoChecks) return multicast_checked(from, packets, mode);
  const auto bytes = count_sent(from.node, packets);
  multicast(from, packets, bytes, mode);
}

/// Counts packets that the port sends, and returns their bytes.
std::uint64_t Router::count_sent(NodeIndex from, Packets packets) {
  std::uint64_t bytes = 0;
  for (const auto* packet : packets) bytes += segmented_size(*packet);
  count(from, fabric::PortCounter::sent_packets, count_packets(packets));
  count(from, fabric::PortCounter::sent_bytes, bytes);
  return bytes;
}

/// Sends packets of an Ethernet port. Those to one GID stay together.
void Router::send_by_gid(Packets packets, SendMode mode) {
  while (!packets.empty()) {
    const auto gid = destination_gid(*packets.front());
    std::size_t count = 1;
    while (count < packets.size() && destination_gid(*packets[count]) == gid) ++count;
    const auto same = packets.first(count);
    if (uplink_->is_own(gid)) {
      deliver(hca_, {{hca_, QpnLayout::slot(same.front()->destination)}}, same, mode);
    } else {
      (void)send_up(same, mode);
    }
    packets = packets.subspan(count);
  }
}

/// Packets that cannot be sent are dropped and counted; but those that there is no room for only if
/// they need not be offered again.
TrySent Router::send_up(Packets packets, SendMode mode) {
  using fabric::PortCounter;
  Delivery why = Delivery::delivered;
  TrySent sent = uplink_->send(packets, mode, why);
  if (sent.done == packets.size()) return sent;
  const bool is_congested = why == Delivery::congested;
  sent.is_too_long = why == Delivery::too_long;
  if (is_congested && mode == SendMode::as_room_permits) return sent;
  const auto left = packets.subspan(sent.done);
  count(hca_,
        sent.is_too_long ? PortCounter::drop_too_long
        : is_congested   ? PortCounter::drop_congested
                         : PortCounter::drop_unreachable,
        count_packets(sent.is_too_long ? left.first(1) : left));
  if (sent.is_too_long && mode == SendMode::as_room_permits) return sent;
  if (!sent.is_too_long || left.size() == 1) return packets.size();
  return send_up(left.subspan(1), mode);
}

void Router::deliver_from_network(ConstBytes bytes, Qpn destination) {
  if (destination > ipoib::wire::kGsiQpn) {
    OutgoingPacket packet;
    packet.add(bytes);
    packet.destination = destination;
    packet.purpose = purpose_of(bytes);
    const auto* const one = &packet;
    deliver(hca_, {{hca_, QpnLayout::slot(destination)}}, {&one, 1}, SendMode::non_blocking);
    return;
  }
  const auto packet = MadPacket::parse(bytes);
  const auto header = packet ? MadHeader::parse(packet->mad) : std::nullopt;
  if (!header) return count(hca_, fabric::PortCounter::drop_malformed);
  if (header->management_class != ipoib::wire::mgmt_class::kCommMgt) {
    return count(hca_, fabric::PortCounter::drop_mad_no_agent);
  }
  if (is_admitted(hca_, *packet)) send_cm(hca_, hca_, *packet, {bytes});
}

/// Whether QP1 of a port takes a MAD. Counts there what it does not take.
bool Router::is_admitted(NodeIndex node, const MadPacket& packet) {
  const auto record = fabric_.node(node);
  const auto why = record ? fabric::gsi_drop(packet, record->port)
                          : std::optional(fabric::PortCounter::drop_port_not_active);
  if (!why) return true;
  count(node, *why);
  if (why == fabric::PortCounter::drop_qkey) {
    fabric_.note_violations(node, CheckedKey::qkey,
                            {1, key_violation(packet, packet.qkey.value())});
  } else if (why == fabric::PortCounter::drop_pkey) {
    fabric_.note_violations(node, CheckedKey::pkey,
                            {1, key_violation(packet, packet.pkey.value())});
  }
  return false;
}

/// The checks on the way of unicast packets. What a port sends to itself does not leave it.
subnet::CheckSet Router::checks_of(const Port& from, const subnet::Route& way,
                                   subnet::CheckSet of_sender) {
  const bool is_own = way.end == subnet::RouteEnd::node && way.index == from.node;
  return is_own ? subnet::kNoChecks : static_cast<subnet::CheckSet>(way.checks | of_sender);
}

void Router::unicast(Port& from, Packets packets, SendMode mode, subnet::CheckSet of_sender,
                     std::uint64_t changes) {
  const auto dlid = packets.front()->dlid;
  const auto way = fabric_.route(from.at, dlid, false);
  const auto checks = checks_of(from, way, of_sender);
  if ((checks & subnet::kCableFault) != 0) return send_over_faulty_cables(from, packets, mode);
  std::array<const OutgoingPacket*, kChunk> passing;
  if (checks != subnet::kNoChecks) {
    std::size_t number = 0;
    for (const auto* packet : packets) {
      if (const auto checked = described(*packet); from.checked.passes(checked)) {
        passing[number++] = packet;
      } else {
        count(from.node, fabric::PortCounter::sent_packets, checked.packets);
        count(from.node, fabric::PortCounter::sent_bytes, checked.bytes);
      }
    }
    if (number == 0) return;
    packets = {passing.data(), number};
  }
  const auto to = reachable_port(from, way, count_packets(packets));
  if (!to) {
    (void)count_sent(from.node, packets);
    return;
  }
  if (checks == subnet::kNoChecks && way.cables == 0) from.ways.keep(changes, dlid, *to);
  arrive(from, *to, way.cables, packets, mode);
}

/// Delivers packets at the end of their way.
void Router::arrive(const Port& from, const subnet::HcaPort& to, unsigned cables, Packets packets,
                    SendMode mode) {
  const auto& first = *packets.front();
  const auto bytes = count_sent(from.node, packets);
  if (cables != 0) fabric_.count_route(from.at, first.dlid, count_packets(packets), bytes);
  deliver(from.node, {{to.hca, QpnLayout::slot(first.destination)}, to.number}, packets, mode);
}

/// Large packets are segmented first: a cable may lose each segment.
void Router::send_over_faulty_cables(Port& from, Packets packets, SendMode mode) {
  (void)count_sent(from.node, packets);
  for (const auto* packet : packets) {
    for_each_packet(*packet, [&](ConstBytes bytes) {
      const auto arrival = from.checked.unicast({headers_of(bytes), 1, bytes.size()});
      if (!arrives(arrival.end)) return count_undeliverable(from.node, arrival.end, 1);
      arrive_alone(from, *packet, bytes, arrival, mode);
    });
  }
}

/// Delivers a copy of a packet, or one of its segments, at the end of its way, or holds it.
void Router::arrive_alone(const Port& from, const OutgoingPacket& packet, ConstBytes bytes,
                          const fabric::CheckedWay::Arrival& arrival, SendMode mode) {
  const bool checksums_valid = packet.checksums_valid || packet.gso.size != 0;
  if (arrival.delay != 0) {
    WirePacket late;
    auto& copy = packet.has_icrc ? late.with_icrc : late.bytes;
    copy.assign(bytes.begin(), bytes.end());
    late.dlid = packet.dlid;
    late.destination = packet.destination;
    late.checksums_valid = checksums_valid;
    late.purpose = packet.purpose;
    late.node = arrival.node;
    late.port = packet.port;
    late.has_passed_switches = true;
    return hold_(std::move(late), std::chrono::milliseconds(arrival.delay));
  }
  OutgoingPacket out;
  out.add(bytes);
  out.has_icrc = packet.has_icrc;
  out.checksums_valid = checksums_valid;
  out.dlid = packet.dlid;
  out.destination = packet.destination;
  out.purpose = packet.purpose;
  const OutgoingPacket* const only = &out;
  deliver_at_node(from.node, arrival.node, {&only, 1}, mode);
}

/// Delivers packets of one destination at a node, unless its port is down.
void Router::deliver_at_node(NodeIndex from, NodeIndex node, Packets packets, SendMode mode) {
  const auto& first = *packets.front();
  const bool is_multicast = ipoib::is_multicast(first.dlid);
  if (fabric_.port_state(node) != PortState::active) {
    if (!is_multicast) {
      count_undeliverable(from, subnet::RouteEnd::link_down, count_packets(packets));
    }
    return;
  }
  const auto to = fabric_.hca_port(node);
  if (!is_multicast) {
    deliver(from, {{to.hca, QpnLayout::slot(first.destination)}, to.number}, packets, mode);
    return;
  }
  count(from, fabric::PortCounter::multicast_copies,
        deliver_to_all(to.hca, [&](ProcessAddress process) {
          return deliver(from, {process, to.number}, packets, mode);
        }));
}

void Router::deliver_late(const WirePacket& packet) {
  const bool has_icrc = !packet.with_icrc.empty();
  const MadOnWire on_wire{has_icrc ? packet.with_icrc : packet.bytes, has_icrc};
  if (packet.kind == WirePacket::Kind::mad) {
    return send_mad(packet.port, packet.bytes, on_wire, Pass::late);
  }
  const Port* const from = port(packet.port);
  OutgoingPacket out;
  out.add(on_wire.bytes);
  out.has_icrc = has_icrc;
  out.checksums_valid = packet.checksums_valid;
  out.dlid = packet.dlid;
  out.destination = packet.destination;
  out.purpose = packet.purpose;
  const OutgoingPacket* const only = &out;
  // A connection sends again what there was no room for.
  deliver_at_node(
      from != nullptr ? from->node : node_, packet.node, {&only, 1},
      packet.purpose == Purpose::datagram ? SendMode::blocking : SendMode::as_room_permits);
}

/// Returns where the way ends; nullopt, and counts the packets, if they cannot get there.
std::optional<subnet::HcaPort> Router::reachable_port(const Port& from, const subnet::Route& way,
                                                      std::size_t packets) {
  if (arrives(way.end)) {
    const NodeIndex node = way.end == subnet::RouteEnd::node ? way.index : kSubnetNode;
    if (fabric_.port_state(node) == PortState::active) return way.to;
    if (way.end == subnet::RouteEnd::node) {
      fabric_.count(way.last, fabric::CableCounter::discards, packets);
    }
    count_undeliverable(from.node, subnet::RouteEnd::link_down, packets);
    return std::nullopt;
  }
  if (way.end == subnet::RouteEnd::link_down) {
    fabric_.count(way.last, fabric::CableCounter::discards, packets);
  }
  count_undeliverable(from.node, way.end, packets);
  return std::nullopt;
}

void Router::count_undeliverable(NodeIndex from, subnet::RouteEnd end, std::size_t packets) {
  using subnet::RouteEnd;
  switch (end) {
    case RouteEnd::node:
    case RouteEnd::switch_:
    case RouteEnd::dropped:  // counted at the port
      break;
    case RouteEnd::link_down:
      count(from, fabric::PortCounter::drop_port_not_active, packets);
      break;
    case RouteEnd::no_entry:
      count(from, fabric::PortCounter::drop_unknown_lid, packets);
      break;
    case RouteEnd::loop:
      count(from, fabric::PortCounter::drop_routing_loop, packets);
      break;
  }
}

/// Sends packets of a queue pair to QP0 or QP1 of a port.
void Router::send_mads(Packets packets) {
  for (const auto* packet : packets) {
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    const std::size_t size = gather(*packet, bytes);
    if (size == 0) {
      count(node_, fabric::PortCounter::drop_malformed, packet->gso.packets);
    } else {
      send_mad(packet->port, {bytes.data(), size});
    }
  }
}

void Router::multicast(const Port& from, Packets packets, std::uint64_t bytes, SendMode mode) {
  const Lid mlid = packets.front()->dlid;
  bool has_looped = false;
  const NodeSet receivers =
      fabric_.receivers(from.at, mlid, count_packets(packets), bytes, has_looped);
  if (has_looped) count(from.node, fabric::PortCounter::drop_routing_loop, count_packets(packets));
  if (receivers.none() && fabric_.group(mlid) == subnet::GroupForwarding{})
    return count(from.node, fabric::PortCounter::drop_unknown_lid, count_packets(packets));
  for (auto i = receivers._Find_first(); i < receivers.size(); i = receivers._Find_next(i)) {
    deliver_at_node(from.node, static_cast<NodeIndex>(i), packets, mode);
  }
}

/// Sends packets to a multicast LID while a port or a cable checks packets: one after the other,
/// since each may have another P_Key.
void Router::multicast_checked(Port& from, Packets packets, SendMode mode) {
  (void)count_sent(from.node, packets);
  const Lid mlid = packets.front()->dlid;
  const bool is_group = fabric_.group(mlid) != subnet::GroupForwarding{};
  const bool has_faults = (fabric_.checks() & subnet::kCableFault) != 0;
  const auto send = [&](const fabric::CheckedPackets& checked, auto&& deliver_at) {
    bool has_looped = false;
    const auto arrivals = from.checked.multicast(checked, has_looped);
    if (has_looped) count(from.node, fabric::PortCounter::drop_routing_loop, checked.packets);
    for (const auto& arrival : arrivals) deliver_at(arrival);
  };
  for (const auto* packet : packets) {
    if (!is_group && fabric_.all_receivers(mlid).none()) {
      count(from.node, fabric::PortCounter::drop_unknown_lid, packet->gso.packets);
    } else if (has_faults) {
      for_each_packet(*packet, [&](ConstBytes bytes) {
        send({headers_of(bytes), 1, bytes.size()},
             [&](const auto& arrival) { arrive_alone(from, *packet, bytes, arrival, mode); });
      });
    } else {
      send(described(*packet), [&](const auto& arrival) {
        deliver_at_node(from.node, arrival.node, {&packet, 1}, mode);
      });
    }
  }
}

/// Calls `deliver` for each process on an HCA and returns the sum of the results.
template <class Deliver>
std::size_t Router::deliver_to_all(NodeIndex hca, Deliver deliver) {
  std::size_t delivered = 0;
  const SlotSet slots = fabric_.occupied(hca);
  for (auto slot = slots._Find_first(); slot < slots.size(); slot = slots._Find_next(slot)) {
    delivered += deliver(ProcessAddress{hca, static_cast<std::uint32_t>(slot)});
  }
  return delivered;
}

bool Router::is_occupied(ProcessAddress process) const {
  return fabric_.is_occupied(process.node, process.slot);
}

std::size_t Router::deliver(NodeIndex from, const Recipient& to, Packets packets, SendMode mode) {
  if (!is_occupied(to.process)) {
    count(from, fabric::PortCounter::drop_empty_slot, count_packets(packets));
    return 0;
  }
  Delivery why = Delivery::delivered;
  std::uint64_t lost = 0;
  const std::size_t delivered = wire_.send(to.process, to.port, packets, mode, why, lost);
  count_lost(from, lost);
  count_undelivered(from, to.process, why, count_packets(packets.subspan(delivered)));
  return count_packets(packets.first(delivered));
}

bool Router::deliver_mad(NodeIndex from, ProcessAddress to, const MadOnWire& mad) {
  if (!is_occupied(to)) {
    count(from, fabric::PortCounter::drop_empty_slot);
    return false;
  }
  std::uint64_t lost = 0;
  const Delivery why = wire_.send_mad(to, mad, lost);
  count_lost(from, lost);
  count_undelivered(from, to, why, 1);
  return why == Delivery::delivered;
}

/// Counts packets that were delivered to a process that died before it read them.
void Router::count_lost(NodeIndex from, std::uint64_t packets) {
  if (packets != 0) count(from, fabric::PortCounter::drop_lost_peer, packets);
}

void Router::count_undelivered(NodeIndex from, ProcessAddress to, Delivery why,
                               std::size_t packets) {
  switch (why) {
    case Delivery::delivered:
      break;
    case Delivery::congested:
    case Delivery::refused:
    case Delivery::unreachable:
    case Delivery::too_long:
      count(from, fabric::PortCounter::drop_congested, packets);
      break;
    case Delivery::no_process:
      count(from, fabric::PortCounter::drop_empty_slot, packets);
      reclaim_slot(folder_, fabric_, to.node, to.slot);
      break;
    case Delivery::lost:
      count(from, fabric::PortCounter::drop_lost_peer, packets);
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

/// Lets a MAD pass the switches. Returns false if it is dropped, or held.
bool Router::pass_switches(Port& from, const MadPacket& packet, ConstBytes bytes,
                           const MadOnWire& on_wire) {
  const auto way = fabric_.route(from.at, packet.dlid, false);
  const auto checks = checks_of(from, way, fabric_.sender(from.node).checks);
  if (checks == subnet::kNoChecks) {
    if (way.cables != 0) fabric_.count_route(from.at, packet.dlid, 1, bytes.size());
    return true;
  }
  const auto arrival = from.checked.unicast({headers_of(bytes), 1, bytes.size()});
  if (arrival.end == subnet::RouteEnd::dropped) return false;
  if (arrival.delay == 0) return true;
  WirePacket late;
  late.kind = WirePacket::Kind::mad;
  late.bytes.assign(bytes.begin(), bytes.end());
  if (on_wire.has_icrc) late.with_icrc.assign(on_wire.bytes.begin(), on_wire.bytes.end());
  late.port = fabric_.hca_port(from.node).number;
  late.has_passed_switches = true;
  hold_(std::move(late), std::chrono::milliseconds(arrival.delay));
  return false;
}

void Router::send_mad(std::uint8_t number, ConstBytes bytes, const MadOnWire& on_wire, Pass pass) {
  Port* const by = port(number);
  const NodeIndex from = by != nullptr ? by->node : node_;
  const auto packet = MadPacket::parse(bytes);
  const auto header = packet ? MadHeader::parse(packet->mad) : std::nullopt;
  if (!header) return count(from, fabric::PortCounter::drop_malformed);
  if (uplink_ != nullptr) {
    const bool is_own = packet->grh && uplink_->is_own(packet->grh->dgid);
    if (is_own) return deliver_from_network(bytes, packet->destination);
    OutgoingPacket out;
    out.add(bytes);
    out.destination = packet->destination;
    const auto* const one = &out;
    count_sent(from, bytes);
    (void)send_up({&one, 1}, SendMode::non_blocking);
    return;
  }
  if (by == nullptr) return count(from, fabric::PortCounter::drop_port_not_active);
  const bool smp = is_smp(header->management_class);
  const auto node = destination_of(*packet, *header, fabric_, by->at);
  if (!node) return count(from, fabric::PortCounter::drop_unknown_lid);
  const bool local =
      smp && is_local_smp(*packet, *header, fabric_.node_at(by->at, packet->dlid) == from);
  if (!local && (!may_pass(from, smp) || !may_pass(*node, smp))) {
    return count(from, fabric::PortCounter::drop_port_not_active);
  }
  // Responses of the agents that the subnet process has come from other ports than its own.
  const bool is_of_agent =
      header->is_response() && header->management_class == ipoib::wire::mgmt_class::kPerf;
  const bool is_forwarded = pass == Pass::now && !smp && !is_of_agent;
  if (is_forwarded && !pass_switches(*by, *packet, bytes, on_wire)) return;
  // The subnet process checks what is for its own agents.
  if (!smp && *node != kSubnetNode && !is_admitted(*node, *packet)) {
    return count_sent(from, on_wire.bytes);
  }
  if (header->management_class == ipoib::wire::mgmt_class::kCommMgt) {
    count_sent(from, on_wire.bytes);
    return send_cm(from, *node, *packet, on_wire);
  }
  if (!header->is_response() || *node == kSubnetNode) return send_mad_to(from, *node, on_wire);
  count_sent(from, on_wire.bytes);
  const auto to = fabric_.hca_port(*node);
  deliver_mad(from, {to.hca, MadRoute::of(header->transaction_id).slot},
              {on_wire.bytes, on_wire.has_icrc, to.number});
}

void Router::send_mad_to(NodeIndex node, const MadOnWire& mad) { send_mad_to(node_, node, mad); }

void Router::send_mad_to(NodeIndex from, NodeIndex node, const MadOnWire& mad) {
  count_sent(from, mad.bytes);
  const auto to = fabric_.hca_port(node);
  const MadOnWire arriving{mad.bytes, mad.has_icrc, to.number};
  const auto delivered = deliver_to_all(to.hca, [&](ProcessAddress process) {
    return deliver_mad(from, process, arriving) ? 1U : 0U;
  });
  if (delivered == 0) count(from, fabric::PortCounter::drop_mad_no_agent);
}

/// Sends a message of class 7. A request goes to all processes of the node if one of them listens
/// on the service at this port, any other message to the process that its communication ID names. A
/// message for none of them is for the agent that speaks the protocol itself, or else for the
/// subnet process, which refuses it in the name of the node.
void Router::send_cm(NodeIndex from, NodeIndex node, const MadPacket& packet,
                     const MadOnWire& on_wire) {
  using ipoib::wire::ServiceId;
  const auto mad = ipoib::wire::CmMad::parse(packet.mad);
  const CmRecipient recipient = mad ? recipient_of(mad->message) : CmRecipient(CommId());
  const auto at = fabric_.hca_port(node);
  const MadOnWire arriving{on_wire.bytes, on_wire.has_icrc, at.number};
  const auto deliver_to_node = [&] {
    return deliver_to_all(at.hca, [&](ProcessAddress to) {
             return deliver_cm(from, to, arriving) ? 1U : 0U;
           }) > 0;
  };
  if (const auto* const service = std::get_if<ServiceId>(&recipient)) {
    if (fabric::has_listener(folder_, node, *service) && deliver_to_node()) return;
  } else if (const auto id = std::get<CommId>(recipient); id == CommId()) {
    if (!deliver_to_node()) count(from, fabric::PortCounter::drop_mad_no_agent);
    return;
  } else {
    const ProcessAddress to{at.hca, CommIdLayout::slot(id)};
    const bool is_there =
        is_occupied(to) && fabric_.epoch(to.node, to.slot) == CommIdLayout::epoch(id);
    if (is_there && (deliver_cm(from, to, arriving) || is_occupied(to))) return;
  }
  if (fabric::has_cm_agent(folder_, node) && deliver_to_node()) return;
  const auto delivered = deliver_to_all(
      kSubnetNode, [&](ProcessAddress to) { return deliver_mad(from, to, on_wire) ? 1U : 0U; });
  if (delivered == 0) count(from, fabric::PortCounter::drop_mad_no_agent);
}

/// Delivers a message of class 7. The recipient is watched: if it dies before it answers, the
/// sender must not wait for it.
bool Router::deliver_cm(NodeIndex from, ProcessAddress to, const MadOnWire& mad) {
  const bool delivered = deliver_mad(from, to, mad);
  wire_.watch(to);
  return delivered;
}

void Router::watch_sender(const MadPacket& packet) {
  const auto slot = watched_sender(packet);
  const bool is_from_own = uplink_ != nullptr && packet.grh && uplink_->is_own(packet.grh->sgid);
  const Port* const at = port(packet.port);
  if (!slot || (at == nullptr && !is_from_own)) return;
  const auto node = is_from_own ? std::optional(hca_) : fabric_.node_at(at->at, packet.slid);
  if (node) wire_.watch({fabric_.hca_of(*node), *slot});
}

void Router::count_sent(NodeIndex from, ConstBytes packet) {
  count(from, fabric::PortCounter::sent_packets);
  count(from, fabric::PortCounter::sent_bytes, packet.size());
}

bool Router::wake_processes(NodeIndex node) {
  std::uint64_t lost = 0;
  const auto missed = deliver_to_all(
      fabric_.hca_of(node), [&](ProcessAddress to) { return wire_.wake(to, lost) ? 0U : 1U; });
  count_lost(node_, lost);
  return missed == 0;
}

}  // namespace softib::transport
