#include "softib/hca/queue_pair.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "softib/hca/network_order.hpp"

namespace softib::hca {
namespace {

constexpr unsigned kKnownSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
constexpr std::uint32_t kControlledQKey = 0x80000000;

std::uint32_t staging_slots(const ibv_qp_cap& cap) {
  return cap.max_send_wr == 0 ? 0 : std::bit_ceil(cap.max_send_wr);
}

/// Only one message at a time can be in progress, which has taken a shared receive.
ReceiveQueue make_receives(const QueuePairConfig& config) {
  if (config.shared != nullptr) return {1, config.shared->attributes().max_sge};
  if (config.domain != nullptr) return {1, kMaxSge};
  return {config.cap.max_recv_wr, config.cap.max_recv_sge};
}

Connection::Service service_of(ibv_qp_type type) {
  if (type == IBV_QPT_RC) return Connection::Service::reliable;
  return type == IBV_QPT_UC ? Connection::Service::unreliable : Connection::Service::extended;
}

template <class Request>
std::uint64_t total_length(const Request& wr) {
  std::uint64_t length = 0;
  for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
  return length;
}

using AtomicOperation = std::remove_cvref_t<decltype(ibv_send_wr::wr.atomic)>;

/// The local memory may be longer than the result.
void set_atomic(const AtomicOperation& from, SendRequest& request, ConnectedRequest& to) {
  const bool is_swap = to.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  request.length = kAtomicBytes;
  to.remote_address = from.remote_addr;
  to.remote_key = from.rkey;
  to.operand = is_swap ? from.swap : from.compare_add;
  to.compare = is_swap ? from.compare_add : 0;
}

WindowBinding binding_of(const ibv_send_wr& wr) {
  const auto& bind = wr.bind_mw;
  const auto& info = bind.bind_info;
  return {bind.mw->rkey, bind.rkey,   info.mr != nullptr ? info.mr->lkey : 0,
          info.addr,     info.length, static_cast<int>(info.mw_access_flags)};
}

}  // namespace

QueuePair::QueuePair(Qpn number, const QueuePairConfig& config)
    : number_(number),
      config_(config),
      sends_(config.cap.max_send_wr, config.cap.max_send_sge),
      shared_(config.shared),
      receives_(make_receives(config)),
      staging_stride_(std::max(config.cap.max_inline_data, config.max_tso_header)),
      staging_(std::size_t{staging_slots(config.cap)} * staging_stride_),
      staging_mask_(staging_slots(config.cap) - 1) {
  if (config.type != IBV_QPT_UD) {
    connection_ =
        std::make_unique<Connection>(service_of(config.type), sends_, config.cap.max_send_wr);
  } else {
    batch_ = std::make_unique<Batch>();
  }
}

int QueuePair::enqueue(const ibv_send_wr& wr) {
  // Sends may be posted from RTS on; in SQE and ERR they are flushed (IBA 10.3.1).
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_INIT || state_ == IBV_QPS_RTR) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > config_.cap.max_send_sge ||
      !(is_connected() ? is_valid_connected(wr) : is_valid_datagram(wr))) {
    return EINVAL;
  }
  if (sends_.full()) return ENOMEM;

  const auto position = sends_.next_position();
  SendRequest& request = sends_.at(position);
  request.id = wr.wr_id;
  request.signalled = config_.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  request.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (is_connected()) {
    set_connected(wr, position);
  } else {
    set_datagram(wr, position);
  }
  if (const int error = copy_elements(wr, position)) return error;
  sends_.post();
  return 0;
}

bool QueuePair::is_valid_datagram(const ibv_send_wr& wr) const {
  const bool is_large = wr.opcode == IBV_WR_TSO;
  if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM && !is_large) return false;
  if ((wr.send_flags & ~kKnownSendFlags) != 0) return false;
  if (wr.wr.ud.ah == nullptr || wr.wr.ud.remote_qpn > kMaxQpn) return false;
  return !is_large || is_valid_large_send(wr);
}

void QueuePair::set_datagram(const ibv_send_wr& wr, std::uint32_t position) {
  SendRequest& request = sends_.at(position);
  const auto& ah = static_cast<const AddressHandle&>(*wr.wr.ud.ah);
  request.to = ah.attributes;
  request.to_pd = ah.protection_domain;
  request.destination = Qpn(wr.wr.ud.remote_qpn);
  // "If the high-order bit of the Q_Key in the work request is set, the Q_Key of the QP context is
  // used" (IBA 10.2.5).
  request.qkey = (wr.wr.ud.remote_qkey & kControlledQKey) != 0 ? qkey_ : QKey(wr.wr.ud.remote_qkey);
  request.with_immediate = wr.opcode == IBV_WR_SEND_WITH_IMM;
  if (request.with_immediate) request.immediate = from_network(wr.imm_data);
  request.ip_checksums = (wr.send_flags & IBV_SEND_IP_CSUM) != 0;
  request.length = 0;
  const bool is_large = wr.opcode == IBV_WR_TSO;
  request.tso_header = is_large ? wr.tso.hdr_sz : std::uint16_t{0};
  request.tso_size = is_large ? wr.tso.mss : std::uint16_t{0};
  if (is_large) std::memcpy(staged(position), wr.tso.hdr, wr.tso.hdr_sz);
}

bool QueuePair::is_valid_connected(const ibv_send_wr& wr) const {
  constexpr unsigned kFlags = kKnownSendFlags & ~unsigned{IBV_SEND_IP_CSUM};
  if ((wr.send_flags & ~kFlags) != 0 || total_length(wr) > kMaxMessage) return false;
  if (is_xrc_target()) return false;
  if (config_.type == IBV_QPT_XRC_SEND && wr.qp_type.xrc.remote_srqn > kMaxQpn) return false;
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return true;
    case IBV_WR_SEND_WITH_INV:
      return connection_->is_reliable();
    case IBV_WR_LOCAL_INV:
      return true;
    case IBV_WR_BIND_MW:
      return wr.bind_mw.mw != nullptr;
    case IBV_WR_ATOMIC_WRITE:
      return total_length(wr) == kAtomicBytes && connection_->attributes.max_sent_reads != 0;
    case IBV_WR_RDMA_READ:
      return (wr.send_flags & IBV_SEND_INLINE) == 0 && connection_->attributes.max_sent_reads != 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return (wr.send_flags & IBV_SEND_INLINE) == 0 && total_length(wr) >= kAtomicBytes &&
             connection_->attributes.max_sent_reads != 0;
    default:
      return false;
  }
}

void QueuePair::set_connected(const ibv_send_wr& wr, std::uint32_t position) {
  SendRequest& request = sends_.at(position);
  request.length = static_cast<std::uint32_t>(total_length(wr));
  request.immediate = from_network(wr.imm_data);
  ConnectedRequest& connected = connection_->requester.at(position);
  connected.opcode = wr.opcode;
  connected.fence = (wr.send_flags & IBV_SEND_FENCE) != 0;
  if (config_.type == IBV_QPT_XRC_SEND) connected.shared_queue = wr.qp_type.xrc.remote_srqn;
  connected.remote_address = wr.wr.rdma.remote_addr;
  connected.remote_key = wr.wr.rdma.rkey;
  connected.invalidated_key = wr.invalidate_rkey;
  if (connected.is_atomic()) set_atomic(wr.wr.atomic, request, connected);
  if (wr.opcode == IBV_WR_BIND_MW) connected.binding = binding_of(wr);
}

bool QueuePair::is_valid_large_send(const ibv_send_wr& wr) const {
  const auto& tso = wr.tso;
  const auto payload = total_length(wr);
  return (wr.send_flags & IBV_SEND_INLINE) == 0 && tso.hdr != nullptr && tso.hdr_sz != 0 &&
         tso.hdr_sz <= config_.max_tso_header && tso.mss != 0 && payload != 0 &&
         payload <= kMaxTso && payload <= std::uint64_t{tso.mss} * kMaxTsoSegments;
}

int QueuePair::copy_elements(const ibv_send_wr& wr, std::uint32_t position) {
  SendRequest& request = sends_.at(position);
  const auto count = static_cast<std::uint32_t>(wr.num_sge);
  request.element_count = count;
  if (!request.is_inline) {
    std::copy_n(wr.sg_list, count, sends_.elements(position).begin());
    return 0;
  }
  const auto size = total_length(wr);
  if (size > config_.cap.max_inline_data && wr.opcode != IBV_WR_ATOMIC_WRITE) return EINVAL;
  request.inline_size = static_cast<std::uint32_t>(size);
  if (size == 0) return 0;
  auto* to = inline_data(position);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& element = wr.sg_list[i];
    if (element.length == 0) continue;
    std::memcpy(to, std::bit_cast<const void*>(element.addr), element.length);
    to += element.length;
  }
  return 0;
}

std::uint8_t* QueuePair::inline_data(std::uint32_t position) {
  if (is_connected()) {
    auto& request = connection_->requester.at(position);
    // Its data is inline always with ibv_wr_atomic_write(), whatever the queue pair's limit is.
    if (request.is_atomic_write()) return request.word.data();
  }
  return staged(position);
}

int QueuePair::enqueue(const ibv_recv_wr& wr, ReceiveKind kind) {
  const bool has_queue = config_.shared == nullptr && config_.receive_cq != nullptr;
  if (state_ == IBV_QPS_RESET || !has_queue) return EINVAL;
  const bool is_large = kind == ReceiveKind::large;
  const auto count = static_cast<std::uint32_t>(wr.num_sge);
  if (wr.num_sge < 0 || count > config_.cap.max_recv_sge ||
      (is_large && (is_connected() || total_length(wr) < kLargeReceive))) {
    return EINVAL;
  }
  if (is_large && !large_receives_) {
    large_receives_ = std::make_unique<ReceiveQueue>(kMaxLargeReceives, config_.cap.max_recv_sge);
  }
  auto& queue = is_large ? *large_receives_ : receives_;
  if (queue.full()) return ENOMEM;
  queue.post({wr.wr_id, count}, {wr.sg_list, count});
  return 0;
}

}  // namespace softib::hca
