// The requester's side of a connection: acknowledgements and responses complete requests; NAKs and
// time-outs make it send again, or fail (IBA 9.7.5.2, 9.7.6).
#include <algorithm>
#include <array>
#include <bit>

#include "softib/hca/connections.hpp"
#include "softib/hca/hca.hpp"

namespace softib::hca {

using ipoib::TimePoint;
using ipoib::wire::Aeth;
using ipoib::wire::ConnectedPacket;

namespace {

constexpr std::uint8_t kRetryForever = 7;  ///< as rnr_retry (IBA 9.7.5.2.8)

/// What an atomic operation has found, as it is stored in memory.
using OriginalBytes = std::array<std::uint8_t, sizeof(ConnectedPacket::original)>;

bool sends(const QueuePair& qp) { return qp.state() == IBV_QPS_RTS || qp.state() == IBV_QPS_SQD; }

}  // namespace

void Connections::handle_ack(QueuePair& qp, const ConnectedPacket& packet) {
  if (!sends(qp) || !qp.connection_->requester.is_outstanding(packet.bth.psn)) return;
  if (packet.aeth.kind == Aeth::Kind::ack) {
    if (!acknowledge(qp, packet.bth.psn)) recover(qp);
  } else if (!acknowledge(qp, packet.bth.psn.previous())) {
    recover(qp);
  } else if (sends(qp)) {
    handle_nak(qp, packet);
  }
}

/// Completes what `psn` acknowledges, which is outstanding, or the one before the first
/// outstanding. Returns false if responses of an earlier READ are missing.
bool Connections::acknowledge(QueuePair& qp, Psn psn) {
  auto& requester = qp.connection_->requester;
  while (requester.has_unacked() && psn - requester.unacked() >= 0) {
    const auto& request = requester.oldest();
    if (request.has_response()) return false;
    const Psn last = request.first + (request.packets - 1);
    if (psn - last < 0) {
      requester.acknowledge(psn);
      return true;
    }
    requester.acknowledge(last);
    complete_oldest(qp);
    if (!sends(qp)) return true;  // the completion queue is full
  }
  return true;
}

void Connections::handle_nak(QueuePair& qp, const ConnectedPacket& packet) {
  if (packet.aeth.kind == Aeth::Kind::rnr_nak) return retry_when_ready(qp, packet.aeth.value);
  if (packet.aeth.kind != Aeth::Kind::nak) return;
  switch (packet.aeth.value) {
    case Aeth::kSequenceError:
      return recover(qp);
    case Aeth::kInvalidRequest:
      return fail(qp, IBV_WC_REM_INV_REQ_ERR);
    case Aeth::kRemoteAccessError:
      return fail(qp, IBV_WC_REM_ACCESS_ERR);
    case Aeth::kRemoteOperationError:
      return fail(qp, IBV_WC_REM_OP_ERR);
    default:
      return;  // reserved
  }
}

void Connections::handle_response(QueuePair& qp, const ConnectedPacket& packet) {
  auto& requester = qp.connection_->requester;
  const auto psn = packet.bth.psn;
  if (!sends(qp) || !requester.is_outstanding(psn)) return;
  // It also acknowledges what was sent before.
  if (!acknowledge(qp, psn.previous())) return recover(qp);
  if (!sends(qp)) return;
  const auto& request = requester.oldest();
  const auto position = qp.sends_.processed();
  const auto& send = qp.sends_.at(position);
  const auto index = static_cast<std::uint32_t>(psn - request.first);
  const auto offset = std::uint64_t{index} * qp.connection_->attributes.mtu();
  const auto original = std::bit_cast<OriginalBytes>(packet.original);
  const bool is_atomic = packet.opcode == ipoib::wire::ConnectedOpcode::atomic_acknowledge;
  const ConstBytes data = is_atomic ? ConstBytes(original) : packet.payload;
  const bool is_expected =
      is_atomic ? request.is_atomic() : request.is_read() || request.is_atomic_write();
  const auto left = request.is_atomic_write() ? 0 : send.length - offset;
  const auto longest = std::uint64_t{packet.packets} * qp.connection_->attributes.mtu();
  const auto expected = std::min(longest, left);
  if (!is_expected || data.size() != expected) return fail(qp, IBV_WC_BAD_RESP_ERR);
  const auto elements = qp.sends_.elements(position).first(send.element_count);
  const auto status = scatter(qp, elements, offset, data);
  if (status != IBV_WC_SUCCESS) return fail(qp, status);
  const bool is_last = index + packet.packets == request.packets;
  requester.acknowledge(psn + (packet.packets - 1));
  if (is_last) complete_oldest(qp);
}

/// A packet or a response was lost. Ignores further signs of that until there is progress; if what
/// is sent again is lost, too, the timer notices.
void Connections::recover(QueuePair& qp) {
  if (!qp.connection_->requester.is_recovering()) retry(qp);
}

void Connections::retry(QueuePair& qp) {
  auto& connection = *qp.connection_;
  auto& requester = connection.requester;
  if (requester.retries >= connection.attributes.retry_count) {
    return fail(qp, IBV_WC_RETRY_EXC_ERR);
  }
  ++requester.retries;
  ++hca_.counters_.retries;
  requester.go_back();
}

void Connections::retry_when_ready(QueuePair& qp, std::uint8_t timer) {
  auto& connection = *qp.connection_;
  auto& requester = connection.requester;
  if (!requester.has_sent_since_pause()) return;  // a repeated NAK
  const auto limit = connection.attributes.rnr_retry;
  if (limit != kRetryForever && requester.rnr_retries++ >= limit) {
    return fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  requester.go_back();
  requester.pause(ipoib::wire::rnr_delay(timer));
}

/// Completes the oldest request with an error, and flushes the others. An unreliable connection
/// goes on receiving (IBA 10.10.3.1).
void Connections::fail(QueuePair& qp, ibv_wc_status status) {
  if (!qp.connection_->is_reliable()) {
    hca_.fail_send(qp, status);
    return hca_.flush_sends(qp);
  }
  ++hca_.counters_.send_errors;
  hca_.complete_send(qp, status);
  if (qp.state_ != IBV_QPS_ERR) hca_.enter_error(qp);
}

void Connections::check_timeout(QueuePair& qp, TimePoint now, ConnectedSink& sink) {
  auto& connection = *qp.connection_;
  if (!sends(qp) || !connection.requester.is_overdue(now)) return;
  const auto& attributes = connection.attributes;
  if (sink.has_untaken(Lid(attributes.path.dlid), attributes.peer)) {
    connection.requester.restart_timer();
  } else {
    retry(qp);
  }
}

}  // namespace softib::hca
