// A received datagram passes the checks of the port (LID, GID), then those of the queue pair
// (P_Key, Q_Key, a posted receive); its bytes are copied to the posted memory, and the receive
// completes.
//
// A large packet is delivered as a whole if its queue pair has a large receive posted; otherwise it
// is segmented first (LargePacket), and each segment is delivered like a packet.
//
// A packet that fails a check is dropped and counted (IBA 9.8.3). A receive with bad memory
// completes with an error and moves the queue pair to ERR (IBA 10.10.3.1, "completion error on the
// receive queue"): a local length error if its elements are too small for the message, a local
// protection error if the memory may not be written.
#include <algorithm>

#include "softib/core/mad_packet.hpp"
#include "softib/hca/hca.hpp"
#include "softib/hca/large_packet.hpp"
#include "softib/hca/network_order.hpp"
#include "wire/encapsulation.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::UdPacket;
constexpr std::size_t kGrhSize = ipoib::wire::Grh::kSize;

/// `from` is the part of the message that starts at `begin`. Copies its overlap with the part
/// [offset, offset + size) of the message; `to` is the memory for the latter. Returns false if the
/// memory is missing.
bool copy_part(ConstBytes from, std::size_t begin, const RegisteredMemory& to, std::size_t offset,
               std::size_t size) {
  const auto first = std::max(begin, offset);
  const auto last = std::min(begin + from.size(), offset + size);
  return first >= last || to.from(first - offset).store(from.subspan(first - begin, last - first));
}

/// HCAs report verified checksums for IPv4 only (IBV_WC_IP_CSUM_OK).
bool is_ipv4(ConstBytes datagram) {
  using ipoib::wire::EtherType;
  return ipoib::wire::parse_encapsulation(datagram) == EtherType::ipv4;
}

}  // namespace

/// A packet, or a large packet as a whole.
struct Hca::IncomingPacket {
  const UdPacket& packet;  ///< the headers
  ConstBytes grh;
  ConstBytes front;    ///< of the payload; empty if the payload is contiguous
  ConstBytes payload;  ///< the rest of the payload
  bool checksums_valid;
  GsoInfo gso{};

  [[nodiscard]] bool is_large() const { return gso.size != 0; }
  [[nodiscard]] std::size_t size() const { return front.size() + payload.size(); }
  /// Bytes of payload of all its segments.
  [[nodiscard]] std::size_t payload_bytes() const {
    return gso.packets * front.size() + payload.size();
  }
};

int Hca::post_receive(QueuePair& qp, ibv_recv_wr* chain, ibv_recv_wr** bad, ReceiveKind kind) {
  int error = 0;
  for (auto* wr = chain; wr != nullptr && error == 0; wr = wr->next) {
    error = qp.enqueue(*wr, kind);
    if (error != 0) *bad = wr;
  }
  // The requests before the bad one stay posted.
  if (qp.state_ == IBV_QPS_ERR) flush_receives(qp);
  return error;
}

void Hca::receive(const ArrivedPacket& from) {
  if (from.gso.size != 0) return receive_large(from);
  const auto packet = UdPacket::parse(from.bytes);
  if (!packet) return connections_.receive(from);
  const auto grh =
      packet->grh ? from.bytes.subspan(ipoib::wire::Lrh::kSize, kGrhSize) : ConstBytes{};
  receive_one({*packet, grh, {}, packet->payload, from.checksums_valid});
}

/// Delivers a large packet as a whole if a large receive is posted, the sender offloaded the
/// checksums and a host accepts that many segments; otherwise segment by segment.
void Hca::receive_large(const ArrivedPacket& from) {
  LargePacket large(from);
  if (!large.is_datagram()) return connections_.receive(from);
  if (!large) {
    counters_.drop_malformed += from.gso.packets;
    return;
  }
  const auto arrival = [&](GsoInfo gso) -> IncomingPacket {
    return {large.headers(), large.grh(),          large.front(),
            large.payload(), from.checksums_valid, gso};
  };
  const auto* const qp = find(large.headers().bth.destination);
  const bool may_be_whole = qp != nullptr && qp->has_large_receive() && from.checksums_valid &&
                            from.gso.packets > 1 && from.gso.packets <= ipoib::kMaxSegments;
  if (may_be_whole && large.select_whole()) return receive_one(arrival(from.gso));
  while (large.next()) receive_one(arrival({}));
}

void Hca::receive_one(const IncomingPacket& arrival) {
  const auto longest =
      arrival.is_large() ? arrival.front.size() + arrival.gso.size : arrival.size();
  if (port_.state != PortState::active) {
    counters_.drop_port += arrival.gso.packets;
  } else if (longest > ipoib::wire::mtu_bytes(port_.mtu)) {
    counters_.drop_length += arrival.gso.packets;
  } else if (ipoib::is_multicast(arrival.packet.lrh.dlid)) {
    receive_multicast(arrival);
  } else {
    receive_unicast(arrival);
  }
}

void Hca::receive_unicast(const IncomingPacket& arrival) {
  const auto& packet = arrival.packet;
  if (!port_.has(packet.lrh.dlid)) {
    counters_.drop_lid += arrival.gso.packets;
    return;
  }
  if (!admits_route(port_, packet.grh)) {
    counters_.drop_gid += arrival.gso.packets;
    return;
  }
  auto* const qp = find(packet.bth.destination);
  if (qp == nullptr) {
    counters_.drop_unknown_qp += arrival.gso.packets;
    return;
  }
  if (accepts(*qp, arrival)) deliver(*qp, arrival);
}

QueuePair* Hca::find(Qpn number) const {
  const auto& qp = qps_[QpnLayout::index(number)];
  return qp != nullptr && qp->number() == number ? qp.get() : nullptr;
}

void Hca::receive_multicast(const IncomingPacket& arrival) {
  const auto& packet = arrival.packet;
  // "Multicast packets shall have a GRH", and are for QP 0xffffff (IBA 10.5.2).
  if (!packet.grh || packet.bth.destination != ipoib::kMulticastQpn) {
    counters_.drop_gid += arrival.gso.packets;
    return;
  }
  const auto attached = multicast_.attached(packet.grh->dgid, packet.lrh.dlid);
  if (attached.empty()) ++counters_.drop_not_attached;
  for (QueuePair* const qp : attached) {
    const bool own = packet.deth.source == qp->number() && port_.has(packet.lrh.slid);
    if (own && qp->config().block_self_multicast) continue;
    if (accepts(*qp, arrival)) deliver(*qp, arrival);
  }
}

bool Hca::accepts(const QueuePair& qp, const IncomingPacket& arrival) {
  const auto& packet = arrival.packet;
  if (!qp.receives() || qp.is_connected()) {
    counters_.drop_qp_state += arrival.gso.packets;
    return false;
  }
  if (qp.port_ != port_.number) {
    counters_.drop_port += arrival.gso.packets;
    return false;
  }
  if (!port_.pkeys[qp.pkey_index()].admits(packet.bth.pkey)) {
    counters_.drop_pkey += arrival.gso.packets;
    return false;
  }
  if (qp.qkey() != packet.deth.qkey) {
    counters_.drop_qkey += arrival.gso.packets;
    return false;
  }
  return true;
}

void Hca::deliver(QueuePair& qp, const IncomingPacket& arrival) {
  const auto& packet = arrival.packet;
  auto& queue = arrival.is_large() ? *qp.large_receives_ : qp.receives_;
  if (queue.waiting() == 0 && !shared_receives_.take(qp)) {
    ++counters_.drop_no_receive;
    return;
  }
  const auto status = scatter(qp, queue, arrival);
  auto& cq = *qp.config_.receive_cq;
  auto& wc = cq.next();
  wc.wr_id = queue.at(queue.processed()).id;
  wc.status = status;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = qp.number().value();
  if (status == IBV_WC_SUCCESS) {
    const bool checksums_verified =
        arrival.checksums_valid && is_ipv4(arrival.front.empty() ? arrival.payload : arrival.front);
    wc.vendor_err = arrival.gso.size;
    wc.byte_len = static_cast<std::uint32_t>(kGrhSize + arrival.size());
    wc.src_qp = packet.deth.source.value();
    wc.slid = packet.lrh.slid.value();
    wc.sl = packet.lrh.sl.value();
    wc.dlid_path_bits = port_.path_bits_of(packet.lrh.dlid);
    wc.pkey_index = qp.pkey_index();
    wc.wc_flags = (packet.grh ? unsigned{IBV_WC_GRH} : 0) |
                  (packet.immediate ? unsigned{IBV_WC_WITH_IMM} : 0) |
                  (checksums_verified ? unsigned{IBV_WC_IP_CSUM_OK} : 0);
    if (packet.immediate) wc.imm_data = to_network(*packet.immediate);
    counters_.received_packets += arrival.gso.packets;
    counters_.received_bytes += arrival.payload_bytes();
  } else {
    ++counters_.receive_errors;
    counters_.drop_qp_state +=
        arrival.gso.packets - 1U;  // which the other segments would find in ERR
  }
  queue.advance(1);
  complete(cq, qp, queue, packet.bth.solicited);
  if (status != IBV_WC_SUCCESS && qp.state_ != IBV_QPS_ERR) enter_error(qp);
}

ibv_wc_status Hca::scatter(QueuePair& qp, ReceiveQueue& to, const IncomingPacket& from) {
  const auto position = to.processed();
  const auto elements = to.elements(position).first(to.at(position).element_count);
  std::uint64_t room = 0;
  for (const auto& element : elements) room += element.length;
  const auto message = kGrhSize + from.size();
  if (room < message) return IBV_WC_LOC_LEN_ERR;

  const auto* const pd = qp.receive_pd();
  std::size_t offset = 0;
  for (auto element : elements) {
    element.length =
        static_cast<std::uint32_t>(std::min<std::size_t>(element.length, message - offset));
    if (element.length == 0) continue;
    const auto memory = memory_.resolve(element, pd, true);
    if (!memory || !copy_part(from.grh, 0, memory, offset, element.length) ||
        !copy_part(from.front, kGrhSize, memory, offset, element.length) ||
        !copy_part(from.payload, kGrhSize + from.front.size(), memory, offset, element.length)) {
      return IBV_WC_LOC_PROT_ERR;
    }
    offset += element.length;
  }
  return IBV_WC_SUCCESS;
}

void Hca::flush_receives(QueuePair& qp) {
  for (auto* const queue : {&qp.receives_, qp.large_receives_.get()}) {
    while (queue != nullptr && queue->waiting() != 0) {
      auto& cq = *qp.receive_cq();
      auto& wc = cq.next();
      wc.wr_id = queue->at(queue->processed()).id;
      wc.status = IBV_WC_WR_FLUSH_ERR;
      wc.opcode = IBV_WC_RECV;
      wc.qp_num = qp.number().value();
      queue->advance(1);
      complete(cq, qp, *queue, false);
    }
  }
}

}  // namespace softib::hca
