#include "softib/hca/queue_pair.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>

#include "softib/hca/limits.hpp"
#include "softib/hca/transfer.hpp"

namespace softib::hca {
namespace {

/// Bytes that a send may have copied: inline data, the headers of a large send, or the word of an
/// atomic write, which is inline whatever the limit of the queue pair is.
std::uint32_t max_copied(const QueuePairConfig& config) {
  const auto word = config.type == IBV_QPT_UD ? 0 : kAtomicBytes;
  return std::max({config.cap.max_inline_data, config.max_tso_header, word});
}

/// Makes the queue of receives. If they come from a shared queue, it has one entry for the message
/// in progress.
ReceiveQueue make_receives(const QueuePairConfig& config) {
  if (config.shared != nullptr) return {1, config.shared->attributes().max_sge};
  if (config.domain != nullptr) return {1, kMaxSge};
  return {config.cap.max_recv_wr, config.cap.max_recv_sge};
}

Connection::Service service_of(ibv_qp_type type) {
  if (type == IBV_QPT_RC) return Connection::Service::reliable;
  return type == IBV_QPT_UC ? Connection::Service::unreliable : Connection::Service::extended;
}

/// The scatter elements of a work request. Requires that `wr.num_sge` is not negative.
template <class Request>
std::span<const ibv_sge> elements_of(const Request& wr) {
  assert(wr.num_sge >= 0);
  return {wr.sg_list, static_cast<std::size_t>(wr.num_sge)};
}

}  // namespace

QueuePair::QueuePair(Qpn number, const QueuePairConfig& config, const Dependencies& hca)
    : number_(number),
      config_(config),
      ports_(hca.ports),
      sends_(config.cap, max_copied(config)),
      shared_(config.shared),
      receives_(make_receives(config)) {
  if (config.type == IBV_QPT_UD) {
    service_.emplace<Datagram>(*this, hca);
  } else {
    service_.emplace<Connection>(*this, service_of(config.type), hca);
  }
}

void QueuePair::reset() {
  assert(state_ == IBV_QPS_RESET);
  if (is_xrc_target()) shared_ = nullptr;
  sends_.clear();
  receives_.clear();
  large_receives_.reset();
  port_ = 0;
  pkey_index_ = 0;
  notify_drained_ = false;
  if (!is_connected()) datagram().reset();
}

int QueuePair::enqueue(const ibv_send_wr& wr) {
  // Sends may be posted from RTS on; in SQE and ERR they are flushed (IBA 10.3.1).
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_INIT || state_ == IBV_QPS_RTR) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > config_.cap.max_send_sge) {
    return EINVAL;
  }
  const auto length = total_length(elements_of(wr));
  if (!(is_connected() ? connection().requester.is_valid(wr, length)
                       : datagram().sender.is_valid(wr, length))) {
    return EINVAL;
  }
  if (sends_.full()) return ENOMEM;

  const auto position = sends_.next_position();
  SendRequest& request = sends_.at(position);
  request.id = wr.wr_id;
  request.signalled = config_.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  request.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
  request.length = static_cast<std::uint32_t>(std::min(length, kLongest));
  if (is_connected()) {
    connection().requester.store(wr, position);
  } else {
    datagram().sender.store(wr, position);
  }
  if (const int error = copy_elements(wr, position)) return error;
  sends_.post();
  return 0;
}

int QueuePair::copy_elements(const ibv_send_wr& wr, std::uint32_t position) {
  SendRequest& request = sends_.at(position);
  const auto elements = elements_of(wr);
  request.element_count = static_cast<std::uint32_t>(elements.size());
  if (!request.is_inline) {
    std::ranges::copy(elements, sends_.elements(position).begin());
    return 0;
  }
  const auto size = total_length(elements);
  if (size > config_.cap.max_inline_data && wr.opcode != IBV_WR_ATOMIC_WRITE) return EINVAL;
  if (size == 0) return 0;
  auto* to = sends_.copied(position);
  for (const auto& element : elements) {
    if (element.length == 0) continue;
    std::memcpy(to, std::bit_cast<const void*>(element.addr), element.length);
    to += element.length;
  }
  return 0;
}

int QueuePair::enqueue(const ibv_recv_wr& wr, ReceiveKind kind) {
  const bool has_queue = config_.shared == nullptr && config_.receive_cq != nullptr;
  if (state_ == IBV_QPS_RESET || !has_queue) return EINVAL;
  const bool is_large = kind == ReceiveKind::large;
  const auto count = static_cast<std::uint32_t>(wr.num_sge);
  if (wr.num_sge < 0 || count > config_.cap.max_recv_sge ||
      (is_large && (is_connected() || total_length(elements_of(wr)) < kLargeReceive))) {
    return EINVAL;
  }
  if (is_large && !large_receives_) {
    large_receives_ = std::make_unique<ReceiveQueue>(kMaxLargeReceives, config_.cap.max_recv_sge);
  }
  auto& queue = is_large ? *large_receives_ : receives_;
  if (queue.full()) return ENOMEM;
  queue.post({wr.wr_id, count}, elements_of(wr));
  return 0;
}

}  // namespace softib::hca
