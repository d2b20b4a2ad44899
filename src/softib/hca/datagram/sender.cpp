#include "softib/hca/datagram/sender.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "softib/core/large_packet.hpp"
#include "softib/core/network_order.hpp"
#include "softib/hca/checksum_offload.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/route.hpp"
#include "softib/hca/transfer.hpp"
#include "softib/hca/work_completion.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {
namespace {

constexpr unsigned kDatagramFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
constexpr std::uint32_t kControlledQKey = 0x80000000;

/// Bytes of payload of the packet; of a large send, of its first segment.
std::size_t message_size(const SendRequest& request) {
  if (request.tso_header == 0) return request.length;
  return request.tso_header + std::min<std::size_t>(request.length, request.tso_size);
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

}  // namespace

DatagramSender::DatagramSender(QueuePair& qp, const Dependencies& hca)
    : qp_(qp), hca_(hca), admission_(hca.ports, hca.counters) {}

bool DatagramSender::is_valid(const ibv_send_wr& wr, std::uint64_t length) const {
  const bool is_large = wr.opcode == IBV_WR_TSO;
  if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM && !is_large) return false;
  if ((wr.send_flags & ~kDatagramFlags) != 0) return false;
  if (wr.wr.ud.ah == nullptr || wr.wr.ud.remote_qpn > kMaxQpn) return false;
  return !is_large || is_valid_large(wr, length);
}

bool DatagramSender::is_valid_large(const ibv_send_wr& wr, std::uint64_t length) const {
  const auto& tso = wr.tso;
  return (wr.send_flags & IBV_SEND_INLINE) == 0 && tso.hdr != nullptr && tso.hdr_sz != 0 &&
         tso.hdr_sz <= qp_.config().max_tso_header && tso.mss != 0 && length != 0 &&
         length <= kMaxTso && length <= std::uint64_t{tso.mss} * kMaxTsoSegments;
}

void DatagramSender::store(const ibv_send_wr& wr, std::uint32_t position) {
  SendRequest& request = qp_.sends().at(position);
  assert(is_valid(wr, request.length));
  const auto& ah = static_cast<const AddressHandle&>(*wr.wr.ud.ah);
  request.to = ah.attributes;
  request.to_pd = ah.protection_domain;
  request.destination = Qpn(wr.wr.ud.remote_qpn);
  // "If the high-order bit of the Q_Key in the work request is set, the Q_Key of the QP context is
  // used" (IBA 10.2.5).
  const bool is_controlled = (wr.wr.ud.remote_qkey & kControlledQKey) != 0;
  request.qkey = is_controlled ? qp_.datagram().qkey : QKey(wr.wr.ud.remote_qkey);
  request.with_immediate = wr.opcode == IBV_WR_SEND_WITH_IMM;
  if (request.with_immediate) request.immediate = from_network(wr.imm_data);
  request.ip_checksums = (wr.send_flags & IBV_SEND_IP_CSUM) != 0;
  const bool is_large = wr.opcode == IBV_WR_TSO;
  request.opcode = is_large ? IBV_WC_TSO : IBV_WC_SEND;
  request.tso_header = is_large ? wr.tso.hdr_sz : std::uint16_t{0};
  request.tso_size = is_large ? wr.tso.mss : std::uint16_t{0};
  if (is_large) std::memcpy(qp_.sends().copied(position), wr.tso.hdr, wr.tso.hdr_sz);
}

std::span<const OutgoingPacket> DatagramSender::next_packets() {
  complete_in_flight();
  outbox_.clear();
  auto& sends = qp_.sends();
  std::size_t packets = 0;
  while (qp_.state() == IBV_QPS_RTS && packets < kSendBatch && sends.waiting() > in_flight_) {
    const auto position = sends.processed() + in_flight_;
    auto& out = outbox_.append();
    const auto status = gather_message(position, out);
    if (status != IBV_WC_SUCCESS) {
      outbox_.remove_last();
      if (!outbox_.empty()) break;
      complete_in_flight();
      if (qp_.state() != IBV_QPS_RTS) break;  // this send has been flushed
      hca_.completions.fail_send(qp_, status);
      continue;
    }
    ++in_flight_;
    if (write_headers(position, out)) {
      packets += out.gso.packets;
    } else {
      outbox_.remove_last();
    }
  }
  if (outbox_.empty()) complete_in_flight();
  return outbox_.packets();
}

ibv_wc_status DatagramSender::gather_message(std::uint32_t position, OutgoingPacket& out) {
  auto& sends = qp_.sends();
  const auto& request = sends.at(position);
  if (request.to_pd != qp_.config().pd) return IBV_WC_LOC_QP_OP_ERR;
  if (message_size(request) > ipoib::wire::mtu_bytes(qp_.port_attributes().mtu))
    return IBV_WC_LOC_LEN_ERR;
  if (request.tso_header != 0) return gather_large(position, out);
  if (request.is_inline) {
    if (request.length != 0) out.add({sends.copied(position), request.length});
  } else {
    const auto status = gather(hca_.memory, qp_.config().pd, sends.elements_of(position), 0,
                               request.length, outbox_);
    if (status != IBV_WC_SUCCESS) return status;
  }
  if (request.ip_checksums) offload_checksums(out);
  return IBV_WC_SUCCESS;
}

/// Collects a large send: the headers, which were copied when it was posted, and the scatter
/// elements.
ibv_wc_status DatagramSender::gather_large(std::uint32_t position, OutgoingPacket& out) {
  auto& sends = qp_.sends();
  const auto& request = sends.at(position);
  out.add({sends.copied(position), request.tso_header});
  const auto status =
      gather(hca_.memory, qp_.config().pd, sends.elements_of(position), 0, request.length, outbox_);
  return status == IBV_WC_SUCCESS ? mark_large(request, out) : status;
}

bool DatagramSender::write_headers(std::uint32_t position, OutgoingPacket& out) {
  const auto& request = qp_.sends().at(position);
  const auto psn = next_psn_;
  next_psn_ = psn + out.gso.packets;
  if (!admission_.leaves(qp_, out.gso.packets)) return false;

  ipoib::wire::UdPacket packet;
  set_route(packet, request.to, qp_.port_attributes(), qp_.pkey_index());
  packet.bth.solicited = request.solicited;
  packet.bth.destination = request.destination;
  packet.bth.psn = psn;
  packet.deth = {request.qkey, qp_.number()};
  if (request.with_immediate) packet.immediate = request.immediate;
  out.header_size = packet.emit_headers(message_size(request), out.header);
  if (out.gso.size == 0 && packet.bth.pad != 0) {
    out.add(ConstBytes(kPadding).first(packet.bth.pad));
  }
  out.purpose = Purpose::datagram;
  out.dlid = packet.lrh.dlid;
  out.destination = request.destination;
  out.port = qp_.port();
  hca_.counters.sent_packets += out.gso.packets;
  hca_.counters.sent_bytes += request.length + std::size_t{out.gso.packets} * request.tso_header;
  return true;
}

void DatagramSender::complete_in_flight() {
  while (in_flight_ != 0) {
    --in_flight_;
    hca_.completions.complete_send(qp_, IBV_WC_SUCCESS);
  }
  // The queue pair may have failed while the batch was in flight; its sends complete before the
  // others are flushed.
  if (qp_.is_flushing()) hca_.completions.flush_sends(qp_);
}

void DatagramSender::reset() {
  in_flight_ = 0;
  next_psn_ = {};
}

}  // namespace softib::hca
