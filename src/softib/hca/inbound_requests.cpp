// The responder's side of a connection: checks a request, executes it on the memory of the program,
// and lets the Responder owe the response (IBA 9.7.4, 9.7.5).
//
// A request that may not be executed is refused by a NAK, and moves the queue pair to ERR. If it
// was about to complete a receive, this one completes with an error, otherwise the program gets an
// asynchronous event. One that only finds no receive is refused for a while (RNR NAK).
//
// An unreliable connection drops instead, without a word, the message to which the packet belongs;
// a receive stays posted for the next message (IBA 9.8.2, 9.8.3).
#include <algorithm>
#include <atomic>
#include <bit>

#include "softib/hca/connections.hpp"
#include "softib/hca/hca.hpp"
#include "softib/hca/network_order.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;
using ipoib::wire::Reth;

namespace {

/// Whether the memory is aligned for an atomic operation. Its remote address does not tell: a
/// region may begin at any address.
bool is_aligned(const RegisteredMemory& memory) {
  return std::bit_cast<std::uintptr_t>(memory.begin()) % kAtomicBytes == 0;
}

/// The NAK for a receive that cannot take the message (IBA 9.7.5.2.4, 9.7.5.2.6).
std::uint8_t nak_of(ibv_wc_status status) {
  return status == IBV_WC_LOC_LEN_ERR ? Aeth::kInvalidRequest : Aeth::kRemoteOperationError;
}

}  // namespace

void Connections::execute(QueuePair& qp, const ConnectedPacket& packet) {
  auto& responder = qp.connection_->responder;
  const auto distance = packet.bth.psn - responder.expected();
  if (distance < 0) return repeat(qp, packet);
  if (distance > 0) {
    ++hca_.counters_.sequence_errors;
    return responder.reject_early();
  }
  if (!responder.may_follow(packet, qp.connection_->attributes.mtu())) {
    return refuse(qp, packet, Aeth::kInvalidRequest);
  }
  if (qp.is_xrc_target()) {
    if (const auto nak = select_shared(qp, packet)) return refuse(qp, packet, *nak);
  }
  if (packet.opcode == ConnectedOpcode::read_request) {
    execute_read(qp, packet);
  } else if (is_atomic(packet.opcode)) {
    execute_atomic(qp, packet);
  } else if (packet.opcode == ConnectedOpcode::atomic_write) {
    execute_atomic_write(qp, packet);
  } else if (is_send(packet.opcode)) {
    execute_send(qp, packet);
  } else {
    execute_write(qp, packet);
  }
}

void Connections::execute_unreliable(QueuePair& qp, const ConnectedPacket& packet) {
  auto& responder = qp.connection_->responder;
  const bool has_gap = packet.bth.psn != responder.expected();
  responder.expect(packet.bth.psn);
  if (begins_message(packet.opcode)) {
    if (responder.message() != Responder::Message::none) {
      ++hca_.counters_.dropped_messages;
      responder.abandon_message();
    }
  } else {
    if (responder.is_dropping()) return responder.drop(packet);
    if (has_gap) return drop_message(qp, packet);
  }
  if (!responder.may_follow(packet, qp.connection_->attributes.mtu())) {
    return drop_message(qp, packet);
  }
  if (is_send(packet.opcode)) {
    execute_send(qp, packet);
  } else {
    execute_write(qp, packet);
  }
}

void Connections::drop_message(QueuePair& qp, const ConnectedPacket& packet) {
  ++hca_.counters_.dropped_messages;
  qp.connection_->responder.drop(packet);
}

/// The response to this packet was lost, or the packet was duplicated (IBA 9.7.5.1.2).
void Connections::repeat(QueuePair& qp, const ConnectedPacket& packet) {
  ++hca_.counters_.duplicates;
  auto& responder = qp.connection_->responder;
  const bool is_read = packet.opcode == ConnectedOpcode::read_request;
  const bool is_atomic_write = packet.opcode == ConnectedOpcode::atomic_write;
  if (!is_read && !is_atomic_write && !is_atomic(packet.opcode)) return responder.owe_ack();
  if (responder.is_full()) return;
  if (is_atomic_write) return responder.repeat_atomic_write(packet);
  if (!is_read) return responder.repeat_atomic(packet);
  if (may_read(qp, packet)) responder.repeat_read(packet, qp.connection_->attributes.mtu());
}

/// Selects the shared receive queue that a request of XRC names, or returns the NAK. It must be of
/// the domain of the queue pair, else this is a violation of the domain (IBA annex A14, "invalid
/// XRCETH"). All packets of a message must name the same one.
Connections::Nak Connections::select_shared(QueuePair& qp, const ConnectedPacket& packet) const {
  auto* const queue = hca_.shared_receives_.find(packet.shared_queue, qp.config_.domain);
  if (queue == nullptr) return Aeth::kRemoteAccessError;
  const bool begins = qp.connection_->responder.message() == Responder::Message::none;
  if (!begins && queue != qp.shared_) return Aeth::kInvalidRequest;
  qp.shared_ = queue;
  return std::nullopt;
}

/// Who uses the keys of the peer's request. A request that names a queue of XRC that does not exist
/// has no domain, and so no access.
KeyUser Connections::remote_user(const QueuePair& qp, std::uint32_t shared_queue) const {
  if (!qp.is_xrc_target()) return qp.key_user();
  const auto* const queue = hca_.shared_receives_.find(shared_queue, qp.config_.domain);
  return {queue != nullptr ? queue->pd() : nullptr, qp.number()};
}

/// Otherwise owes an RNR NAK, or drops the message.
bool Connections::has_receive(QueuePair& qp, const ConnectedPacket& packet) {
  if (qp.receives_.waiting() != 0 || hca_.shared_receives_.take(qp)) return true;
  auto& connection = *qp.connection_;
  if (!connection.is_reliable()) {
    drop_message(qp, packet);
    return false;
  }
  ++hca_.counters_.rnr_naks;
  if (qp.shared_ != nullptr) ++hca_.counters_.shared_rnr_naks;
  connection.responder.reject(Aeth::Kind::rnr_nak, connection.attributes.min_rnr_timer);
  return false;
}

void Connections::execute_send(QueuePair& qp, const ConnectedPacket& packet) {
  auto& responder = qp.connection_->responder;
  const bool begins = responder.message() == Responder::Message::none;
  if (begins && !has_receive(qp, packet)) return;
  const auto position = qp.receives_.processed();
  const auto elements =
      qp.receives_.elements(position).first(qp.receives_.at(position).element_count);
  const auto offset = begins ? 0 : responder.received();
  const auto status = scatter(qp, elements, offset, packet.payload);
  const bool is_reliable = qp.connection_->is_reliable();
  if (status == IBV_WC_LOC_LEN_ERR && !is_reliable) return drop_message(qp, packet);
  if (status != IBV_WC_SUCCESS) {
    if (is_reliable) responder.reject(Aeth::Kind::nak, nak_of(status));
    complete_receive(qp, packet, status);
    return hca_.enter_error(qp);
  }
  responder.accept(packet);
  if (has_invalidate(packet.opcode) && !invalidate(qp, packet)) return;
  if (ipoib::wire::ends_message(packet.opcode)) complete_receive(qp, packet, IBV_WC_SUCCESS);
}

/// Returns whether the key may be invalidated. If not, this is an error of the responder alone: the
/// message has been received, and is acknowledged (IBA 9.9.3, class J; rdma_rxe does the same).
bool Connections::invalidate(QueuePair& qp, const ConnectedPacket& packet) {
  const auto user = remote_user(qp, packet.shared_queue);
  if (hca_.memory_.may_invalidate(packet.invalidated_key, user)) {
    hca_.memory_.invalidate(packet.invalidated_key);
    return true;
  }
  complete_receive(qp, packet, IBV_WC_REM_INV_REQ_ERR);
  hca_.enter_error(qp);
  return false;
}

void Connections::execute_write(QueuePair& qp, const ConnectedPacket& packet) {
  const auto& attributes = qp.connection_->attributes;
  auto& responder = qp.connection_->responder;
  const bool begins = responder.message() == Responder::Message::none;
  const bool ends = ipoib::wire::ends_message(packet.opcode);
  const Reth to = responder.destination(packet);
  const auto done = begins ? 0 : responder.received();
  const auto after = done + packet.payload.size();
  if ((attributes.access & IBV_ACCESS_REMOTE_WRITE) == 0 || to.length > kMaxMessage ||
      after > to.length || (ends && after != to.length)) {
    return refuse(qp, packet, Aeth::kInvalidRequest);
  }
  const auto resolve = [&](std::uint64_t offset, std::uint64_t size) {
    return hca_.memory_.resolve(to.key, to.address + offset, size,
                                remote_user(qp, packet.shared_queue), IBV_ACCESS_REMOTE_WRITE);
  };
  if (begins && to.length != 0 && !resolve(0, to.length)) {
    return refuse(qp, packet, Aeth::kRemoteAccessError);
  }
  if (has_immediate(packet.opcode) && !has_receive(qp, packet)) return;
  if (!packet.payload.empty()) {
    const auto memory = resolve(done, packet.payload.size());
    if (!memory) return refuse(qp, packet, Aeth::kRemoteAccessError);
    if (!memory.store_in_order(packet.payload)) {
      return refuse(qp, packet, Aeth::kRemoteOperationError);
    }
  }
  responder.accept(packet);
  if (has_immediate(packet.opcode)) complete_receive(qp, packet, IBV_WC_SUCCESS);
}

void Connections::execute_read(QueuePair& qp, const ConnectedPacket& packet) {
  auto& connection = *qp.connection_;
  auto& responder = connection.responder;
  const auto& attributes = connection.attributes;
  if ((attributes.access & IBV_ACCESS_REMOTE_READ) == 0 || packet.reth.length > kMaxMessage ||
      responder.is_full() || responder.pending_reads() >= attributes.max_received_reads) {
    return refuse(qp, packet, Aeth::kInvalidRequest);
  }
  if (!may_read(qp, packet)) return refuse(qp, packet, Aeth::kRemoteAccessError);
  responder.accept_read(packet, attributes.mtu());
}

/// The memory, and its remote address, must be aligned to its size; else the request is invalid
/// (IBA 9.4.5, 9.7.5.2.4). The processor's own instructions make the operation atomic for all who
/// use the memory.
void Connections::execute_atomic(QueuePair& qp, const ConnectedPacket& packet) {
  using Word = std::uint64_t;
  auto& connection = *qp.connection_;
  auto& responder = connection.responder;
  const auto& attributes = connection.attributes;
  const auto& atomic = packet.atomic;
  if ((attributes.access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || atomic.address % sizeof(Word) != 0 ||
      responder.is_full() || responder.pending_reads() >= attributes.max_received_reads) {
    return refuse(qp, packet, Aeth::kInvalidRequest);
  }
  const auto memory =
      hca_.memory_.resolve(atomic.key, atomic.address, sizeof(Word),
                           remote_user(qp, packet.shared_queue), IBV_ACCESS_REMOTE_ATOMIC);
  if (!memory) return refuse(qp, packet, Aeth::kRemoteAccessError);
  if (!is_aligned(memory)) return refuse(qp, packet, Aeth::kInvalidRequest);
  if (!memory.populate(sizeof(Word))) return refuse(qp, packet, Aeth::kRemoteOperationError);
  const std::atomic_ref word(*reinterpret_cast<Word*>(memory.begin()));
  Word original = atomic.compare;
  if (packet.opcode == ConnectedOpcode::fetch_add) {
    original = word.fetch_add(atomic.operand);
  } else {
    (void)word.compare_exchange_strong(original, atomic.operand);
  }
  responder.accept_atomic(packet, original);
}

/// Writes 8 bytes at once. The response is that of a READ, of no bytes.
void Connections::execute_atomic_write(QueuePair& qp, const ConnectedPacket& packet) {
  auto& connection = *qp.connection_;
  auto& responder = connection.responder;
  const auto& attributes = connection.attributes;
  const auto& to = packet.reth;
  if ((attributes.access & IBV_ACCESS_REMOTE_WRITE) == 0 || to.length != kAtomicBytes ||
      packet.payload.size() != kAtomicBytes || to.address % kAtomicBytes != 0 ||
      responder.is_full() || responder.pending_reads() >= attributes.max_received_reads) {
    return refuse(qp, packet, Aeth::kInvalidRequest);
  }
  const auto memory =
      hca_.memory_.resolve(to.key, to.address, kAtomicBytes, remote_user(qp, packet.shared_queue),
                           IBV_ACCESS_REMOTE_WRITE);
  if (!memory) return refuse(qp, packet, Aeth::kRemoteAccessError);
  if (!is_aligned(memory)) return refuse(qp, packet, Aeth::kInvalidRequest);
  if (!memory.store_in_order(packet.payload)) {
    return refuse(qp, packet, Aeth::kRemoteOperationError);
  }
  responder.accept_atomic_write(packet);
}

bool Connections::may_read(const QueuePair& qp, const ConnectedPacket& packet) const {
  const Reth& read = packet.reth;
  if ((qp.connection_->attributes.access & IBV_ACCESS_REMOTE_READ) == 0) return false;
  if (read.length == 0) return true;
  return read.length <= kMaxMessage &&
         hca_.memory_.resolve(read.key, read.address, read.length,
                              remote_user(qp, packet.shared_queue), IBV_ACCESS_REMOTE_READ);
}

void Connections::refuse(QueuePair& qp, const ConnectedPacket& packet, std::uint8_t nak) {
  if (!qp.connection_->is_reliable()) return drop_message(qp, packet);
  auto& responder = qp.connection_->responder;
  responder.reject(Aeth::Kind::nak, nak);
  if (responder.message() == Responder::Message::send && qp.receives_.waiting() != 0) {
    complete_receive(qp, packet, IBV_WC_REM_INV_REQ_ERR);
  } else {
    hca_.raise(AsyncEvent{event_of(nak), nullptr, &qp});
  }
  hca_.enter_error(qp);
}

void Connections::complete_receive(QueuePair& qp, const ConnectedPacket& packet,
                                   ibv_wc_status status) {
  auto& queue = qp.receives_;
  auto& cq = *qp.receive_cq();
  auto& wc = cq.next();
  wc.wr_id = queue.at(queue.processed()).id;
  wc.status = status;
  wc.opcode = is_send(packet.opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  wc.qp_num = qp.number().value();
  if (status == IBV_WC_SUCCESS) {
    const auto& attributes = qp.connection_->attributes;
    wc.byte_len = static_cast<std::uint32_t>(qp.connection_->responder.received());
    wc.src_qp = attributes.peer.value();
    wc.slid = packet.lrh.slid.value();
    wc.sl = packet.lrh.sl.value();
    wc.dlid_path_bits = hca_.port_.path_bits_of(packet.lrh.dlid);
    wc.pkey_index = qp.pkey_index();
    if (has_immediate(packet.opcode)) {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = to_network(packet.immediate);
    } else if (has_invalidate(packet.opcode)) {
      wc.wc_flags = IBV_WC_WITH_INV;
      wc.invalidated_rkey = packet.invalidated_key;
    }
  } else {
    ++hca_.counters_.receive_errors;
  }
  queue.advance(1);
  hca_.complete(cq, qp, queue, packet.bth.solicited);
}

/// Writes a part of a message, which begins at `offset`, to the memory that is for the message.
ibv_wc_status Connections::scatter(const QueuePair& qp, std::span<const ibv_sge> elements,
                                   std::uint64_t offset, ConstBytes from) {
  for (const auto& element : elements) {
    if (from.empty()) break;
    if (offset >= element.length) {
      offset -= element.length;
      continue;
    }
    const auto to = hca_.memory_.resolve(element, qp.receive_pd(), true);
    const auto size = std::min<std::size_t>(element.length - offset, from.size());
    if (!to || !to.from(offset).store(from.first(size))) return IBV_WC_LOC_PROT_ERR;
    from = from.subspan(size);
    offset = 0;
  }
  return from.empty() ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

}  // namespace softib::hca
