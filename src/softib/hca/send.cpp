// post_send() queues a send; next_packets() returns a datagram as a packet in a batch; the next
// call of next_packets() completes it. Sends complete in the order of posting.
//
// A send with an error completes with it after the sends before it, and moves the queue pair to
// SQE, which flushes the sends after it (IBA 10.10.3.1).
//
// A large send (IBV_WR_TSO) becomes one large packet that the receiver segments: see LargePacket.
#include <algorithm>

#include "softib/hca/checksum_offload.hpp"
#include "softib/hca/hca.hpp"
#include "softib/hca/large_packet.hpp"
#include "softib/hca/route.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {
namespace {

/// Bytes of payload of the packet; of a large send, of its first segment.
std::size_t message_size(const SendRequest& request, std::size_t length) {
  if (request.tso_header == 0) return length;
  return request.tso_header + std::min<std::size_t>(length, request.tso_size);
}

/// Fills in how the receiver segments a large send.
ibv_wc_status mark_large(const SendRequest& request, OutgoingPacket& out) {
  const auto plan = plan_gso(out.pieces.front(), request.tso_size);
  if (!plan || plan->payload != request.tso_header) return IBV_WC_LOC_QP_OP_ERR;
  out.gso = {request.tso_size,
             static_cast<std::uint16_t>(plan->count(request.tso_header + request.length))};
  out.checksums_valid = request.ip_checksums;
  return IBV_WC_SUCCESS;
}

ibv_wc_opcode completion_opcode(const ConnectedRequest& request) {
  switch (request.opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_ATOMIC_WRITE:
      return IBV_WC_ATOMIC_WRITE;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

}  // namespace

int Hca::post_send(QueuePair& qp, ibv_send_wr* chain, ibv_send_wr** bad) {
  for (auto* wr = chain; wr != nullptr; wr = wr->next) {
    if (const int error = qp.enqueue(*wr)) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

int Hca::post_send_all(QueuePair& qp, ibv_send_wr* chain) {
  const auto before = qp.sends_.next_position();
  ibv_send_wr* bad = nullptr;
  const int error = post_send(qp, chain, &bad);
  if (error != 0) qp.sends_.unpost_from(before);
  return error;
}

std::span<const OutgoingPacket> Hca::next_packets(QueuePair& qp) {
  complete_in_flight(qp);
  if (qp.is_connected()) {
    connections_.posted(qp);
    return {};
  }
  std::size_t count = 0;
  std::size_t packets = 0;
  while (qp.state_ == IBV_QPS_RTS && packets < kSendBatch && qp.sends_.waiting() > qp.in_flight_) {
    const auto position = qp.sends_.processed() + qp.in_flight_;
    auto& out = (*qp.batch_)[count];
    const auto status = gather(qp, position, out);
    if (status != IBV_WC_SUCCESS) {
      if (count != 0) break;
      complete_in_flight(qp);
      if (qp.state_ != IBV_QPS_RTS) break;  // this send has been flushed
      fail_send(qp, status);
    } else {
      ++qp.in_flight_;
      if (!write_headers(qp, position, out)) continue;
      ++count;
      packets += out.gso.packets;
    }
  }
  if (count == 0) complete_in_flight(qp);
  return std::span(*qp.batch_).first(count);
}

ibv_wc_status Hca::gather(QueuePair& qp, std::uint32_t position, OutgoingPacket& out) {
  auto& request = qp.sends_.at(position);
  if (request.to_pd != qp.config_.pd) return IBV_WC_LOC_QP_OP_ERR;

  out.clear();
  if (request.tso_header != 0) return gather_large(qp, position, out);
  if (request.is_inline) {
    if (request.inline_size != 0) {
      out.add({qp.staged(position), request.inline_size});
    }
  } else if (const auto status = gather_elements(qp, position, out); status != IBV_WC_SUCCESS) {
    return status;
  }
  const auto length = out.payload_size;
  if (length > ipoib::wire::mtu_bytes(port_.mtu)) return IBV_WC_LOC_LEN_ERR;
  request.length = static_cast<std::uint32_t>(length);
  if (request.ip_checksums) offload_checksums(out);
  return IBV_WC_SUCCESS;
}

/// The headers, which were copied when the send was posted, and the scatter elements.
ibv_wc_status Hca::gather_large(QueuePair& qp, std::uint32_t position, OutgoingPacket& out) {
  auto& request = qp.sends_.at(position);
  out.add({qp.staged(position), request.tso_header});
  const auto status = gather_elements(qp, position, out);
  if (status != IBV_WC_SUCCESS) return status;
  const auto length = out.payload_size - request.tso_header;
  if (message_size(request, length) > ipoib::wire::mtu_bytes(port_.mtu)) return IBV_WC_LOC_LEN_ERR;
  request.length = static_cast<std::uint32_t>(length);
  return mark_large(request, out);
}

ibv_wc_status Hca::gather_elements(QueuePair& qp, std::uint32_t position, OutgoingPacket& out) {
  const auto count = qp.sends_.at(position).element_count;
  const auto index = static_cast<std::size_t>(&out - qp.batch_->data());
  for (const auto& element : qp.sends_.elements(position).first(count)) {
    if (element.length == 0) continue;
    const auto memory = memory_.resolve(element, qp.config_.pd, false);
    if (!memory) return IBV_WC_LOC_PROT_ERR;
    if (memory.is_on_demand() && element.length > kMaxTso) return IBV_WC_LOC_LEN_ERR;
    if (!qp.copies_.add(out, index, memory, element.length)) return IBV_WC_LOC_PROT_ERR;
  }
  return IBV_WC_SUCCESS;
}

/// Returns false if the port's state or P_Key table drops the packet.
bool Hca::write_headers(QueuePair& qp, std::uint32_t position, OutgoingPacket& out) {
  const auto& request = qp.sends_.at(position);
  const auto pkey = port_.pkeys[qp.pkey_index_];
  const auto psn = qp.send_psn_;
  qp.send_psn_ = psn + out.gso.packets;
  if (port_.state != PortState::active || qp.port_ != port_.number) {
    counters_.send_drop_port += out.gso.packets;
    return false;
  }
  if (!pkey.is_valid()) {
    counters_.send_drop_pkey += out.gso.packets;
    return false;
  }

  ipoib::wire::UdPacket packet;
  packet.lrh.sl = ServiceLevel(request.to.sl & kServiceLevelMask);
  packet.lrh.dlid = Lid(request.to.dlid);
  packet.lrh.slid = port_.source_lid(request.to.src_path_bits);
  if (request.to.is_global != 0) packet.grh = make_grh(request.to.grh, port_.gid());
  packet.bth.solicited = request.solicited;
  packet.bth.pkey = pkey;
  packet.bth.destination = request.destination;
  packet.bth.psn = psn;
  packet.deth = {request.qkey, qp.number_};
  if (request.with_immediate) packet.immediate = request.immediate;
  out.header_size = packet.emit_headers(message_size(request, request.length), out.header);
  if (out.gso.size == 0 && packet.bth.pad != 0) {
    out.add(ConstBytes(kPadding).first(packet.bth.pad));
  }
  out.dlid = packet.lrh.dlid;
  out.destination = request.destination;
  counters_.sent_packets += out.gso.packets;
  counters_.sent_bytes += request.length + std::size_t{out.gso.packets} * request.tso_header;
  return true;
}

void Hca::complete_in_flight(QueuePair& qp) {
  while (qp.in_flight_ != 0) {
    --qp.in_flight_;
    complete_send(qp, IBV_WC_SUCCESS);
  }
  // The queue pair may have failed while the batch was in flight; its sends complete before the
  // others are flushed.
  if (qp.state_ != IBV_QPS_ERR && qp.state_ != IBV_QPS_SQE) return;
  flush_sends(qp);
}

/// next_packets() flushes the sends after it.
void Hca::fail_send(QueuePair& qp, ibv_wc_status status) {
  ++counters_.send_errors;
  qp.state_ = IBV_QPS_SQE;
  complete_send(qp, status);
}

void Hca::flush_sends(QueuePair& qp) {
  if (qp.in_flight_ != 0) return;  // complete_in_flight() flushes
  while (qp.sends_.waiting() != 0) complete_send(qp, IBV_WC_WR_FLUSH_ERR);
}

void Hca::complete_send(QueuePair& qp, ibv_wc_status status) {
  const auto position = qp.sends_.processed();
  const auto& request = qp.sends_.at(position);
  qp.sends_.advance(1);
  // Errors are always reported (IBA 10.7.3.1).
  if (status == IBV_WC_SUCCESS && !request.signalled) return;
  auto& cq = *qp.config_.send_cq;
  auto& wc = cq.next();
  wc.wr_id = request.id;
  wc.status = status;
  wc.opcode = qp.is_connected()         ? completion_opcode(qp.connection_->requester.at(position))
              : request.tso_header != 0 ? IBV_WC_TSO
                                        : IBV_WC_SEND;
  wc.byte_len = status == IBV_WC_SUCCESS ? request.length : 0;
  wc.qp_num = qp.number_.value();
  complete(cq, qp, qp.sends_, false);
}

}  // namespace softib::hca
