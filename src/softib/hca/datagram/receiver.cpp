#include "softib/hca/datagram/receiver.hpp"

#include "softib/core/large_packet.hpp"
#include "softib/hca/ip_header.hpp"
#include "softib/hca/shared_receives.hpp"
#include "softib/hca/transfer.hpp"
#include "softib/hca/work_completion.hpp"
#include "wire/encapsulation.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::UdPacket;
constexpr std::size_t kGrhSize = ipoib::wire::Grh::kSize;

/// HCAs report verified checksums for IPv4 only (IBV_WC_IP_CSUM_OK).
bool is_ipv4(ConstBytes datagram) {
  using ipoib::wire::EtherType;
  return ipoib::wire::parse_encapsulation(datagram) == EtherType::ipv4;
}

}  // namespace

/// A packet, or a large packet as a whole.
struct DatagramReceiver::Incoming {
  const UdPacket& packet;  ///< the headers
  ConstBytes grh;
  ConstBytes front;    ///< of the payload; empty if the payload is contiguous
  ConstBytes payload;  ///< the rest of the payload
  bool checksums_valid;
  std::uint8_t port;
  GsoInfo gso{};

  [[nodiscard]] bool is_large() const { return gso.size != 0; }
  [[nodiscard]] std::size_t size() const { return front.size() + payload.size(); }
  /// Bytes of payload of all its segments.
  [[nodiscard]] std::size_t payload_bytes() const {
    return gso.packets * front.size() + payload.size();
  }
  [[nodiscard]] Arrival arrival() const {
    return {packet, is_large() ? front.size() + gso.size : size(), port, gso.packets,
            packet.deth.source};
  }
};

bool DatagramReceiver::receive(const ArrivedPacket& from) {
  if (from.gso.size != 0) return receive_large(from);
  const auto packet = UdPacket::parse(from.bytes);
  if (!packet) return false;
  auto grh = packet->grh ? from.bytes.subspan(ipoib::wire::Lrh::kSize, kGrhSize) : ConstBytes{};
  IpHeaderBytes ip_header;
  if (packet->grh && hca_.ports.are_ethernet()) {
    ip_header = ip_header_of(*packet->grh);
    grh = ip_header;
  }
  receive({*packet, grh, {}, packet->payload, from.checksums_valid, from.port});
  return true;
}

/// Delivers a large packet as a whole if a large receive is posted, the sender offloaded the
/// checksums and a host accepts that many segments; otherwise segment by segment.
bool DatagramReceiver::receive_large(const ArrivedPacket& from) {
  LargePacket large(from);
  if (!large.is_datagram()) return false;
  if (!large) {
    hca_.counters.at(from.port).drop_malformed += from.gso.packets;
    return true;
  }
  const auto arrival = [&](GsoInfo gso) -> Incoming {
    return {large.headers(), large.grh(), large.front(), large.payload(), from.checksums_valid,
            from.port,       gso};
  };
  const auto* const qp = qps_.find(large.headers().bth.destination);
  const bool may_be_whole = qp != nullptr && qp->has_large_receive() && from.checksums_valid &&
                            from.gso.packets > 1 && from.gso.packets <= ipoib::kMaxSegments;
  if (may_be_whole && large.select_whole()) {
    receive(arrival(from.gso));
    return true;
  }
  while (large.next()) receive(arrival({}));
  return true;
}

void DatagramReceiver::receive(const Incoming& arrival) {
  if (!admission_.enters(arrival.arrival())) return;
  if (ipoib::is_multicast(arrival.packet.lrh.dlid)) {
    receive_multicast(arrival);
  } else {
    receive_unicast(arrival);
  }
}

void DatagramReceiver::receive_unicast(const Incoming& arrival) {
  if (!admission_.is_for_port(arrival.arrival())) return;
  auto* const qp = qps_.find(arrival.packet.bth.destination);
  if (qp == nullptr || qp->is_connected()) {
    hca_.counters.at(arrival.port).drop_unknown_qp += arrival.gso.packets;
    return;
  }
  deliver(*qp, arrival);
}

void DatagramReceiver::receive_multicast(const Incoming& arrival) {
  const auto& packet = arrival.packet;
  // "Multicast packets shall have a GRH", and are for QP 0xffffff (IBA 10.5.2).
  if (!packet.grh || packet.bth.destination != ipoib::kMulticastQpn) {
    hca_.counters.at(arrival.port).drop_gid += arrival.gso.packets;
    return;
  }
  // A copy of the packet comes to each port in the group; it is for the queue pairs of that port.
  const auto& port = hca_.ports[arrival.port];
  const bool is_from_port =
      port.is_ethernet() ? port.has(packet.grh->sgid) : port.has(packet.lrh.slid);
  bool is_attached = false;
  for (QueuePair* const qp : multicast_.attached(packet.grh->dgid, packet.lrh.dlid)) {
    if (qp->port() != 0 && qp->port() != arrival.port) continue;
    is_attached = true;
    const bool own = packet.deth.source == qp->number() && is_from_port;
    if (own && qp->config().block_self_multicast) continue;
    // A limited member's own packets are not for it. No peer is at fault, so nothing is counted.
    if (is_from_port && !admission_.shares_partition(*qp, packet)) continue;
    deliver(*qp, arrival);
  }
  if (!is_attached) ++hca_.counters.at(arrival.port).drop_not_attached;
}

void DatagramReceiver::deliver(QueuePair& qp, const Incoming& arrival) {
  const auto& packet = arrival.packet;
  auto& counters = hca_.counters;
  const Arrival checked = arrival.arrival();
  if (!admission_.reaches(qp, checked) || !admission_.admits(qp, checked, packet.deth.qkey)) return;
  auto& queue = arrival.is_large() ? *qp.large_receives() : qp.receives();
  if (queue.waiting() == 0 && !hca_.shared_receives.take(qp)) {
    ++counters.at(arrival.port).drop_no_receive;
    return;
  }
  const auto status = write(qp, queue.elements_of(queue.processed()), arrival);
  const bool checksums_verified =
      arrival.checksums_valid && is_ipv4(arrival.front.empty() ? arrival.payload : arrival.front);
  if (status == IBV_WC_SUCCESS) {
    counters.received_packets += arrival.gso.packets;
    counters.received_bytes += arrival.payload_bytes();
  } else {
    // The other segments would find the queue pair in ERR.
    counters.at(arrival.port).drop_qp_state += arrival.gso.packets - 1U;
  }
  hca_.completions.complete_receive(
      qp, queue, status,
      {.headers = packet,
       .source = packet.deth.source,
       .bytes = static_cast<std::uint32_t>(kGrhSize + arrival.size()),
       .flags = (packet.grh ? unsigned{IBV_WC_GRH} : 0) |
                (packet.immediate ? unsigned{IBV_WC_WITH_IMM} : 0) |
                (checksums_verified ? unsigned{IBV_WC_IP_CSUM_OK} : 0),
       .immediate = packet.immediate.value_or(0),
       .segment_size = arrival.gso.size});
  if (status != IBV_WC_SUCCESS && qp.state() != IBV_QPS_ERR) hca_.completions.enter_error(qp);
}

/// Writes a datagram to a receive. Without a GRH, its 40 bytes in front of the message are not
/// written.
ibv_wc_status DatagramReceiver::write(const QueuePair& qp, std::span<const ibv_sge> elements,
                                      const Incoming& arrival) const {
  if (total_length(elements) < kGrhSize + arrival.size()) return IBV_WC_LOC_LEN_ERR;
  std::uint64_t offset = 0;
  const auto write_part = [&](ConstBytes part) {
    return scatter(hca_.memory, qp.receive_pd(), elements,
                   std::exchange(offset, offset + part.size()), part);
  };
  if (arrival.grh.empty()) {
    offset = kGrhSize;
  } else if (const auto status = write_part(arrival.grh); status != IBV_WC_SUCCESS) {
    return status;
  }
  if (const auto status = write_part(arrival.front); status != IBV_WC_SUCCESS) return status;
  return write_part(arrival.payload);
}

}  // namespace softib::hca
