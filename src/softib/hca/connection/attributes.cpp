#include "softib/hca/connection/attributes.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <type_traits>

#include "softib/hca/limits.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/route.hpp"
#include "wire/congestion_notification.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {

namespace {

constexpr std::uint8_t kMaxTimerCode = 31;
constexpr std::uint8_t kMaxRetries = 7;

bool is_valid_path(const ibv_ah_attr& path, const PortAttributes& port) {
  if (path.port_num != port.number) return false;
  return check_route(path, port).has_value();
}

/// A program in C may pass any number.
bool is_valid_mtu(const ibv_mtu& passed) {
  const auto code = std::bit_cast<std::underlying_type_t<ibv_mtu>>(passed);
  return code >= IBV_MTU_256 && code <= IBV_MTU_4096;
}

void set_destination(ipoib::wire::DataPacket& packet, const ConnectionAttributes& attributes,
                     const QueuePair& from, const PortAttributes& port) {
  set_route(packet, attributes.path, port, from.pkey_index());
  if (port.is_ethernet() && packet.grh->flow_label == 0) {
    packet.grh->flow_label = flow_label_of(from.number(), attributes.peer);
  }
  packet.bth.destination = attributes.peer;
}

}  // namespace

void write_headers(ipoib::wire::ConnectedPacket& packet, const ConnectionAttributes& attributes,
                   const QueuePair& from, const PortAttributes& port, OutgoingPacket& out) {
  set_destination(packet, attributes, from, port);
  if (port.is_ethernet()) {
    packet.grh->traffic_class = ipoib::wire::markable(packet.grh->traffic_class);
  }
  auto payload = out.payload_size;
  if (packet.packets > 1) {
    payload = attributes.mtu();
    out.gso = {static_cast<std::uint16_t>(payload), static_cast<std::uint16_t>(packet.packets)};
  }
  out.header_size = packet.emit_headers(payload, out.header);
  if (packet.bth.pad != 0) out.add(ConstBytes(kPadding).first(packet.bth.pad));
  out.purpose = ipoib::wire::is_response(packet.opcode) ? Purpose::response : Purpose::request;
  out.dlid = packet.lrh.dlid;
  out.destination = attributes.peer;
  out.port = from.port();
}

void write_notification(const ConnectionAttributes& attributes, const QueuePair& from,
                        const PortAttributes& port, OutgoingPacket& out) {
  ipoib::wire::CongestionNotification packet;
  set_destination(packet, attributes, from, port);
  out.clear();
  out.header_size = packet.emit(out.header);
  out.purpose = Purpose::response;
  out.dlid = packet.lrh.dlid;
  out.destination = attributes.peer;
  out.port = from.port();
}

bool are_valid_connection_attributes(const ibv_qp_attr& attr, int mask,
                                     const PortAttributes& port) {
  const auto has = [&](int attribute) { return (mask & attribute) != 0; };
  if (has(IBV_QP_AV) && !is_valid_path(attr.ah_attr, port)) return false;
  if (has(IBV_QP_PATH_MTU) && !is_valid_mtu(attr.path_mtu)) return false;
  if (has(IBV_QP_DEST_QPN) && attr.dest_qp_num > kMaxQpn) return false;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxReads) return false;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxReads) return false;
  if (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > kMaxTimerCode) return false;
  if (has(IBV_QP_TIMEOUT) && attr.timeout > kMaxTimerCode) return false;
  if (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > kMaxRetries) return false;
  return !has(IBV_QP_RNR_RETRY) || attr.rnr_retry <= kMaxRetries;
}

void ConnectionAttributes::apply(const ibv_qp_attr& attr, int mask, std::uint8_t link_mtu) {
  const auto has = [&](int attribute) { return (mask & attribute) != 0; };
  if (has(IBV_QP_AV)) path = attr.ah_attr;
  if (has(IBV_QP_PATH_MTU)) {
    path_mtu = attr.path_mtu;
    packet_mtu = std::min(static_cast<std::uint8_t>(path_mtu), link_mtu);
  }
  if (has(IBV_QP_DEST_QPN)) peer = Qpn(attr.dest_qp_num);
  if (has(IBV_QP_ACCESS_FLAGS)) access = static_cast<int>(attr.qp_access_flags);
  if (has(IBV_QP_RQ_PSN)) receive_psn = attr.rq_psn & ipoib::wire::Psn::kMask;
  if (has(IBV_QP_SQ_PSN)) send_psn = attr.sq_psn & ipoib::wire::Psn::kMask;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) max_sent_reads = attr.max_rd_atomic;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) max_received_reads = attr.max_dest_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) min_rnr_timer = attr.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) timeout = attr.timeout;
  if (has(IBV_QP_RETRY_CNT)) retry_count = attr.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) rnr_retry = attr.rnr_retry;
}

void ConnectionAttributes::report(ibv_qp_attr& attr) const {
  attr.ah_attr = path;
  attr.path_mtu = path_mtu;
  attr.dest_qp_num = peer.value();
  attr.qp_access_flags = static_cast<unsigned>(access);
  attr.max_rd_atomic = max_sent_reads;
  attr.max_dest_rd_atomic = max_received_reads;
  attr.min_rnr_timer = min_rnr_timer;
  attr.timeout = timeout;
  attr.retry_cnt = retry_count;
  attr.rnr_retry = rnr_retry;
}

std::uint32_t ConnectionAttributes::mtu() const {
  return static_cast<std::uint32_t>(ipoib::wire::mtu_bytes(packet_mtu));
}

ipoib::Duration ConnectionAttributes::ack_timeout() const {
  if (timeout == 0) return ipoib::Duration::zero();
  const ipoib::Duration unit = std::chrono::nanoseconds(4096);
  return std::max<ipoib::Duration>(unit * (std::int64_t{1} << timeout), kMinAckTimeout);
}

}  // namespace softib::hca
