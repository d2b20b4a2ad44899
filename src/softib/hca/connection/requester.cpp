#include "softib/hca/connection/requester.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "softib/core/network_order.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/transfer.hpp"
#include "softib/hca/work_completion.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

namespace {

constexpr std::uint8_t kRetryForever = 7;  ///< as rnr_retry (IBA 9.7.5.2.8)

/// The value that an atomic operation has found, as it is stored in memory.
using OriginalBytes = std::array<std::uint8_t, sizeof(ConnectedPacket::original)>;

/// The opcode of a request that is one packet, or of which the packets are parts.
ConnectedOpcode opcode_of(const ConnectedRequest& request) {
  switch (request.opcode) {
    case IBV_WR_SEND:
      return ConnectedOpcode::send_only;
    case IBV_WR_SEND_WITH_IMM:
      return ConnectedOpcode::send_only_immediate;
    case IBV_WR_SEND_WITH_INV:
      return ConnectedOpcode::send_only_invalidate;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return ConnectedOpcode::write_only_immediate;
    case IBV_WR_RDMA_READ:
      return ConnectedOpcode::read_request;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return ConnectedOpcode::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return ConnectedOpcode::fetch_add;
    case IBV_WR_ATOMIC_WRITE:
      return ConnectedOpcode::atomic_write;
    default:
      return ConnectedOpcode::write_only;
  }
}

}  // namespace

Requester::Requester(QueuePair& qp, ipoib::wire::ConnectedService service,
                     const ConnectionAttributes& attributes, const Dependencies& hca)
    : qp_(qp),
      service_(service),
      attributes_(attributes),
      hca_(hca),
      window_(qp.sends(), qp.config().cap.max_send_wr) {}

bool Requester::is_valid(const ibv_send_wr& wr, std::uint64_t length) const {
  return is_valid_request(wr, length, qp_.config().type, attributes_);
}

void Requester::store(const ibv_send_wr& wr, std::uint32_t position) {
  auto& send = qp_.sends().at(position);
  auto& request = window_.at(position);
  assert(is_valid(wr, send.length));
  request.set(wr, qp_.config().type == IBV_QPT_XRC_SEND);
  send.opcode = completion_opcode(wr.opcode);
  send.immediate = from_network(wr.imm_data);
  if (request.is_atomic()) send.length = kAtomicBytes;
}

/// Builds packets. A request whose memory may not be used fails when those before it are complete.
void Requester::build(Outbox& to) {
  assert(to.empty());
  execute_local();
  const auto planned = window_.plan(plan_, attributes_, qp_.state() == IBV_QPS_RTS);
  for (const auto& packet : std::span(plan_).first(planned)) {
    const auto status = build_packet(packet, to);
    if (status == IBV_WC_SUCCESS) continue;
    to.remove_last();
    if (to.empty() && packet.position == qp_.sends().processed()) fail(status);
    return;
  }
}

ibv_wc_status Requester::build_packet(const RequestPacket& planned, Outbox& to) {
  auto& out = to.append();
  auto& sends = qp_.sends();
  const auto& send = sends.at(planned.position);
  const auto& request = window_.at(planned.position);
  const auto mtu = attributes_.mtu();
  const auto offset = std::uint64_t{planned.index} * mtu;
  const auto size =
      std::min<std::uint64_t>(std::uint64_t{planned.packets} * mtu, send.length - offset);
  ConnectedPacket packet;
  packet.service = service_;
  packet.opcode = opcode_of(request);
  if (!request.has_response()) {
    packet.opcode = opcode_of_part(packet.opcode, planned.index == 0, planned.is_last);
    packet.packets = planned.packets;
  }
  packet.bth.psn = planned.psn;
  packet.bth.ack_request = planned.requests_ack && is_reliable();
  packet.bth.solicited = planned.is_last && send.solicited;
  packet.immediate = send.immediate;
  packet.invalidated_key = request.invalidated_key;
  packet.shared_queue = request.shared_queue;
  packet.reth = {request.remote_address, request.remote_key, send.length};
  packet.atomic = {request.remote_address, request.remote_key, request.operand, request.compare};
  if (request.is_read()) {
    packet.reth.address += offset;
    packet.reth.length = static_cast<std::uint32_t>(size);
  } else if (!request.is_atomic()) {
    const auto before = static_cast<std::uint32_t>(planned.psn - window_.unacked());
    out.is_streamed = before * mtu >= kStreamedAfter;
    if (!send.is_inline) {
      const auto status = gather(hca_.memory, qp_.config().pd, sends.elements_of(planned.position),
                                 offset, size, to);
      if (status != IBV_WC_SUCCESS) return status;
    } else if (size != 0) {
      out.add({sends.copied(planned.position) + offset, size});
    }
  }
  write_headers(packet, attributes_, qp_, qp_.port_attributes(), out);
  return IBV_WC_SUCCESS;
}

void Requester::sent(std::size_t count) {
  for (std::size_t i = 0; i < count && qp_.state() != IBV_QPS_ERR; ++i) {
    const auto& packet = plan_[i];
    window_.sent(packet);
    if (is_reliable()) continue;
    // Nobody acknowledges what an unreliable connection sends (IBA 9.8.1).
    window_.acknowledge(packet.psn + (packet.packets - 1));
    if (packet.is_last) complete_oldest();
  }
}

/// Executes local operations, which bind and invalidate memory windows. They begin when all
/// requests before them have been sent, so that a key that is sent afterwards is valid, and
/// complete in order (IBA 10.8.3.3). One that may not be executed fails when those before it are
/// complete.
void Requester::execute_local() {
  while (qp_.state() == IBV_QPS_RTS && window_.may_start_local()) {
    const auto position = window_.next_to_start();
    const bool is_oldest = position == qp_.sends().processed();
    if (execute_local(window_.at(position))) {
      window_.start_local();
      if (is_oldest) complete_oldest();
    } else {
      if (is_oldest) {
        window_.start_local();
        fail(IBV_WC_MW_BIND_ERR);
      }
      return;
    }
  }
}

bool Requester::execute_local(const ConnectedRequest& request) {
  const auto user = qp_.key_user();
  if (request.opcode == IBV_WR_BIND_MW) return hca_.memory.bind(request.binding, user);
  if (!hca_.memory.may_invalidate(request.invalidated_key, user)) return false;
  hca_.memory.invalidate(request.invalidated_key);
  return true;
}

void Requester::handle_acknowledge(const ConnectedPacket& packet) {
  if (!qp_.can_send() || !window_.is_outstanding(packet.bth.psn)) return;
  if (packet.aeth.kind == Aeth::Kind::ack) {
    if (!acknowledge(packet.bth.psn)) recover();
  } else if (!acknowledge(packet.bth.psn.previous())) {
    recover();
  } else if (qp_.can_send()) {
    handle_nak(packet.aeth);
  }
}

/// Completes the requests that `psn` acknowledges, which is outstanding, or the one before the
/// first outstanding. Returns false if responses of an earlier READ are missing.
bool Requester::acknowledge(Psn psn) {
  while (window_.has_unacked() && psn - window_.unacked() >= 0) {
    const auto& request = window_.oldest();
    if (request.has_response()) return false;
    const Psn last = request.first + (request.packets - 1);
    if (psn - last < 0) {
      window_.acknowledge(psn);
      return true;
    }
    window_.acknowledge(last);
    complete_oldest();
    if (!qp_.can_send()) return true;  // the completion queue is full
  }
  return true;
}

void Requester::handle_nak(const Aeth& nak) {
  if (nak.kind == Aeth::Kind::rnr_nak) return retry_when_ready(nak.value);
  if (nak.kind != Aeth::Kind::nak) return;
  switch (nak.value) {
    case Aeth::kSequenceError:
      return recover();
    case Aeth::kInvalidRequest:
      return fail(IBV_WC_REM_INV_REQ_ERR);
    case Aeth::kRemoteAccessError:
      return fail(IBV_WC_REM_ACCESS_ERR);
    case Aeth::kRemoteOperationError:
      return fail(IBV_WC_REM_OP_ERR);
    default:
      return;  // reserved
  }
}

void Requester::handle_response(const ConnectedPacket& packet) {
  const auto psn = packet.bth.psn;
  if (!qp_.can_send() || !window_.is_outstanding(psn)) return;
  // The response also acknowledges the packets that were sent before.
  if (!acknowledge(psn.previous())) return recover();
  if (!qp_.can_send()) return;
  const auto& request = window_.oldest();
  auto& sends = qp_.sends();
  const auto position = sends.processed();
  const auto& send = sends.at(position);
  const auto index = static_cast<std::uint32_t>(psn - request.first);
  const auto offset = std::uint64_t{index} * attributes_.mtu();
  const auto original = std::bit_cast<OriginalBytes>(packet.original);
  const bool is_atomic = packet.opcode == ConnectedOpcode::atomic_acknowledge;
  const ConstBytes data = is_atomic ? ConstBytes(original) : packet.payload;
  const bool is_expected =
      is_atomic ? request.is_atomic() : request.is_read() || request.is_atomic_write();
  const auto left = request.is_atomic_write() ? 0 : send.length - offset;
  const auto longest = std::uint64_t{packet.packets} * attributes_.mtu();
  const auto expected = std::min(longest, left);
  if (!is_expected || data.size() != expected) return fail(IBV_WC_BAD_RESP_ERR);
  const auto status =
      scatter(hca_.memory, qp_.config().pd, sends.elements_of(position), offset, data);
  if (status != IBV_WC_SUCCESS) return fail(status);
  const bool is_last = index + packet.packets == request.packets;
  window_.acknowledge(psn + (packet.packets - 1));
  if (is_last) complete_oldest();
}

/// Completes the oldest request, and local operations that waited for it.
void Requester::complete_oldest() {
  hca_.completions.complete_send(qp_, IBV_WC_SUCCESS);
  while (qp_.state() != IBV_QPS_ERR && window_.has_started() && window_.oldest().is_local()) {
    hca_.completions.complete_send(qp_, IBV_WC_SUCCESS);
  }
}

/// Goes back, since a packet or a response was lost. Ignores further signs of that until there is
/// progress; if the packets that are sent again are lost, too, the timer notices.
void Requester::recover() {
  if (!window_.is_recovering()) retry();
}

void Requester::retry() {
  if (window_.retries >= attributes_.retry_count) return fail(IBV_WC_RETRY_EXC_ERR);
  ++window_.retries;
  ++hca_.counters.at(qp_.port()).retries;
  window_.go_back();
}

void Requester::retry_when_ready(std::uint8_t timer) {
  if (!window_.has_sent_since_pause()) return;  // a repeated NAK
  const auto limit = attributes_.rnr_retry;
  if (limit != kRetryForever && window_.rnr_retries++ >= limit) {
    return fail(IBV_WC_RNR_RETRY_EXC_ERR);
  }
  window_.go_back();
  window_.pause(ipoib::wire::rnr_delay(timer));
}

/// Completes the oldest request with an error, and flushes the others. An unreliable connection
/// goes on receiving (IBA 10.10.3.1).
void Requester::fail(ibv_wc_status status) {
  if (!is_reliable()) {
    hca_.completions.fail_send(qp_, status);
    return hca_.completions.flush_sends(qp_);
  }
  ++hca_.counters.send_errors;
  hca_.completions.complete_send(qp_, status);
  if (qp_.state() != IBV_QPS_ERR) hca_.completions.enter_error(qp_);
}

void Requester::abandon(ibv_wc_status status) {
  if (qp_.can_send() && window_.has_started()) return fail(status);
  if (qp_.state() != IBV_QPS_ERR) hca_.completions.enter_error(qp_);
}

void Requester::check_timeout(ipoib::TimePoint now, ConnectedSink& sink) {
  if (!qp_.can_send() || !window_.is_overdue(now)) return;
  if (sink.has_untaken(qp_.port(), Lid(attributes_.path.dlid), attributes_.peer)) {
    window_.restart_timer();
  } else {
    retry();
  }
}

}  // namespace softib::hca
