#include "softib/hca/connection/responder.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>

#include "softib/core/packet_run.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/shared_receives.hpp"
#include "softib/hca/transfer.hpp"
#include "softib/hca/work_completion.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;
using ipoib::wire::Reth;

namespace {

/// Whether the memory is aligned for an atomic operation. That does not follow from its remote
/// address: a region may begin at any address.
bool is_aligned(const RegisteredMemory& memory) {
  return std::bit_cast<std::uintptr_t>(memory.begin()) % kAtomicBytes == 0;
}

/// Whether a request has a response of its own. The others are acknowledged together.
bool has_own_response(ConnectedOpcode opcode) {
  return opcode == ConnectedOpcode::read_request || opcode == ConnectedOpcode::atomic_write ||
         is_atomic(opcode);
}

/// The NAK for a receive that cannot take the message (IBA 9.7.5.2.4, 9.7.5.2.6).
std::uint8_t nak_of(ibv_wc_status status) {
  return status == IBV_WC_LOC_LEN_ERR ? Aeth::kInvalidRequest : Aeth::kRemoteOperationError;
}

}  // namespace

Responder::Responder(QueuePair& qp, ipoib::wire::ConnectedService service,
                     const ConnectionAttributes& attributes, const Dependencies& hca)
    : qp_(qp), service_(service), attributes_(attributes), hca_(hca), window_(service) {}

void Responder::handle_request(const ConnectedPacket& packet) {
  if (is_reliable()) {
    handle_reliable(packet);
  } else {
    handle_unreliable(packet);
  }
}

void Responder::handle_reliable(const ConnectedPacket& packet) {
  const auto distance = packet.bth.psn - window_.expected();
  if (distance < 0) return repeat(packet);
  if (distance > 0) {
    ++hca_.counters.at(qp_.port()).sequence_errors;
    return window_.reject_early();
  }
  if (!window_.may_follow(packet, attributes_.mtu())) return refuse(packet, Aeth::kInvalidRequest);
  if (qp_.is_xrc_target()) {
    if (const auto nak = select_shared(packet)) return refuse(packet, *nak);
  }
  // There is no room for the response. As after a loss, the peer repeats the request.
  if (has_own_response(packet.opcode) && window_.is_full()) return;
  if (packet.opcode == ConnectedOpcode::read_request) {
    execute_read(packet);
  } else if (is_atomic(packet.opcode)) {
    execute_atomic(packet);
  } else if (packet.opcode == ConnectedOpcode::atomic_write) {
    execute_atomic_write(packet);
  } else if (is_send(packet.opcode)) {
    execute_send(packet);
  } else {
    execute_write(packet);
  }
}

void Responder::handle_unreliable(const ConnectedPacket& packet) {
  const bool has_gap = packet.bth.psn != window_.expected();
  window_.expect(packet.bth.psn);
  if (begins_message(packet.opcode)) {
    if (window_.message() != ReceiveWindow::Message::none) {
      ++hca_.counters.at(qp_.port()).dropped_messages;
      window_.drop_message();
    }
  } else {
    if (window_.is_dropping()) return window_.drop(packet);
    if (has_gap) return drop_message(packet);
  }
  if (!window_.may_follow(packet, attributes_.mtu())) return drop_message(packet);
  if (is_send(packet.opcode)) {
    execute_send(packet);
  } else {
    execute_write(packet);
  }
}

/// Handles a packet again, because the response to it was lost, or it was duplicated (IBA
/// 9.7.5.1.2).
void Responder::repeat(const ConnectedPacket& packet) {
  ++hca_.counters.at(qp_.port()).duplicates;
  if (!has_own_response(packet.opcode)) return window_.owe_ack();
  if (window_.is_full()) return;
  if (packet.opcode == ConnectedOpcode::atomic_write) return window_.repeat_atomic_write(packet);
  if (is_atomic(packet.opcode)) return window_.repeat_atomic(packet);
  if (may_read(packet)) window_.repeat_read(packet, attributes_.mtu());
}

/// Selects the shared receive queue that a request of XRC names, or returns the NAK. It must be of
/// the domain of the queue pair, else this is a violation of the domain (IBA annex A14, "invalid
/// XRCETH"). All packets of a message must name the same one.
Responder::Nak Responder::select_shared(const ConnectedPacket& packet) {
  auto* const queue = hca_.shared_receives.find(packet.shared_queue, qp_.config().domain);
  if (queue == nullptr) return Aeth::kRemoteAccessError;
  const bool begins = window_.message() == ReceiveWindow::Message::none;
  if (!begins && queue != qp_.shared()) return Aeth::kInvalidRequest;
  qp_.set_shared(queue);
  return std::nullopt;
}

/// The user of the keys in the peer's request. A request that names a queue of XRC that does not
/// exist has no domain, and so no access.
KeyUser Responder::remote_user(std::uint32_t shared_queue) const {
  if (!qp_.is_xrc_target()) return qp_.key_user();
  const auto* const queue = hca_.shared_receives.find(shared_queue, qp_.config().domain);
  return {queue != nullptr ? queue->pd() : nullptr, qp_.number()};
}

/// Whether there is a receive for the message. If not, owes an RNR NAK, or drops the message.
bool Responder::has_receive(const ConnectedPacket& packet) {
  if (qp_.receives().waiting() != 0 || hca_.shared_receives.take(qp_)) return true;
  if (!is_reliable()) {
    drop_message(packet);
    return false;
  }
  ++hca_.counters.at(qp_.port()).rnr_naks;
  if (qp_.shared() != nullptr) ++hca_.counters.at(qp_.port()).shared_rnr_naks;
  window_.reject(Aeth::Kind::rnr_nak, attributes_.min_rnr_timer);
  return false;
}

/// Whether the peer may have one more READ or atomic operation outstanding.
bool Responder::may_respond() const {
  return window_.pending_reads() < attributes_.max_received_reads;
}

bool Responder::may_read(const ConnectedPacket& packet) const {
  const Reth& read = packet.reth;
  if ((attributes_.access & IBV_ACCESS_REMOTE_READ) == 0) return false;
  if (read.length == 0) return true;
  return read.length <= kMaxMessage &&
         hca_.memory.resolve(read.key, read.address, read.length, remote_user(packet.shared_queue),
                             IBV_ACCESS_REMOTE_READ);
}

void Responder::execute_send(const ConnectedPacket& packet) {
  const bool begins = window_.message() == ReceiveWindow::Message::none;
  if (begins && !has_receive(packet)) return;
  auto& receives = qp_.receives();
  const auto offset = begins ? 0 : window_.received();
  const auto status = scatter(hca_.memory, qp_.receive_pd(),
                              receives.elements_of(receives.processed()), offset, packet.payload);
  if (status == IBV_WC_LOC_LEN_ERR && !is_reliable()) return drop_message(packet);
  if (status != IBV_WC_SUCCESS) {
    if (is_reliable()) window_.reject(Aeth::Kind::nak, nak_of(status));
    complete_receive(packet, status);
    return hca_.completions.enter_error(qp_);
  }
  window_.accept(packet);
  if (has_invalidate(packet.opcode) && !invalidate(packet)) return;
  if (ipoib::wire::ends_message(packet.opcode)) complete_receive(packet, IBV_WC_SUCCESS);
}

/// Invalidates a key; returns whether that is allowed. If not, this is an error of the responder
/// alone: the message has been received, and is acknowledged (IBA 9.9.3, class J; rdma_rxe does the
/// same).
bool Responder::invalidate(const ConnectedPacket& packet) {
  const auto user = remote_user(packet.shared_queue);
  if (hca_.memory.may_invalidate(packet.invalidated_key, user)) {
    hca_.memory.invalidate(packet.invalidated_key);
    return true;
  }
  complete_receive(packet, IBV_WC_REM_INV_REQ_ERR);
  hca_.completions.enter_error(qp_);
  return false;
}

void Responder::execute_write(const ConnectedPacket& packet) {
  const bool begins = window_.message() == ReceiveWindow::Message::none;
  const bool ends = ipoib::wire::ends_message(packet.opcode);
  const Reth to = window_.destination(packet);
  const auto done = begins ? 0 : window_.received();
  const auto after = done + packet.payload.size();
  if ((attributes_.access & IBV_ACCESS_REMOTE_WRITE) == 0 || to.length > kMaxMessage ||
      after > to.length || (ends && after != to.length)) {
    return refuse(packet, Aeth::kInvalidRequest);
  }
  const auto resolve = [&](std::uint64_t offset, std::uint64_t size) {
    return hca_.memory.resolve(to.key, to.address + offset, size, remote_user(packet.shared_queue),
                               IBV_ACCESS_REMOTE_WRITE);
  };
  if (begins && to.length != 0 && !resolve(0, to.length)) {
    return refuse(packet, Aeth::kRemoteAccessError);
  }
  if (has_immediate(packet.opcode) && !has_receive(packet)) return;
  if (!packet.payload.empty()) {
    const auto memory = resolve(done, packet.payload.size());
    if (!memory) return refuse(packet, Aeth::kRemoteAccessError);
    if (!memory.store_in_order(packet.payload)) return refuse(packet, Aeth::kRemoteOperationError);
  }
  window_.accept(packet);
  if (has_immediate(packet.opcode)) complete_receive(packet, IBV_WC_SUCCESS);
}

void Responder::execute_read(const ConnectedPacket& packet) {
  if ((attributes_.access & IBV_ACCESS_REMOTE_READ) == 0 || packet.reth.length > kMaxMessage ||
      !may_respond()) {
    return refuse(packet, Aeth::kInvalidRequest);
  }
  if (!may_read(packet)) return refuse(packet, Aeth::kRemoteAccessError);
  window_.accept_read(packet, attributes_.mtu());
}

/// Executes an atomic operation. The memory, and its remote address, must be aligned to its size;
/// else the request is invalid (IBA 9.4.5, 9.7.5.2.4). The processor's own instructions make the
/// operation atomic for all who use the memory.
void Responder::execute_atomic(const ConnectedPacket& packet) {
  using Word = std::uint64_t;
  const auto& atomic = packet.atomic;
  if ((attributes_.access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || atomic.address % sizeof(Word) != 0 ||
      !may_respond()) {
    return refuse(packet, Aeth::kInvalidRequest);
  }
  const auto memory =
      hca_.memory.resolve(atomic.key, atomic.address, sizeof(Word),
                          remote_user(packet.shared_queue), IBV_ACCESS_REMOTE_ATOMIC);
  if (!memory) return refuse(packet, Aeth::kRemoteAccessError);
  if (!is_aligned(memory)) return refuse(packet, Aeth::kInvalidRequest);
  if (!memory.populate(sizeof(Word))) return refuse(packet, Aeth::kRemoteOperationError);
  const std::atomic_ref word(*reinterpret_cast<Word*>(memory.begin()));
  Word original = atomic.compare;
  if (packet.opcode == ConnectedOpcode::fetch_add) {
    original = word.fetch_add(atomic.operand);
  } else {
    (void)word.compare_exchange_strong(original, atomic.operand);
  }
  window_.accept_atomic(packet, original);
}

/// Writes 8 bytes at once. The response is that of a READ, of no bytes.
void Responder::execute_atomic_write(const ConnectedPacket& packet) {
  const auto& to = packet.reth;
  if ((attributes_.access & IBV_ACCESS_REMOTE_WRITE) == 0 || to.length != kAtomicBytes ||
      packet.payload.size() != kAtomicBytes || to.address % kAtomicBytes != 0 || !may_respond()) {
    return refuse(packet, Aeth::kInvalidRequest);
  }
  const auto memory = hca_.memory.resolve(
      to.key, to.address, kAtomicBytes, remote_user(packet.shared_queue), IBV_ACCESS_REMOTE_WRITE);
  if (!memory) return refuse(packet, Aeth::kRemoteAccessError);
  if (!is_aligned(memory)) return refuse(packet, Aeth::kInvalidRequest);
  if (!memory.store_in_order(packet.payload)) return refuse(packet, Aeth::kRemoteOperationError);
  window_.accept_atomic_write(packet);
}

void Responder::complete_receive(const ConnectedPacket& packet, ibv_wc_status status) {
  const bool has_key = has_invalidate(packet.opcode);
  hca_.completions.complete_receive(
      qp_, qp_.receives(), status,
      {.headers = packet,
       .opcode = is_send(packet.opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
       .source = attributes_.peer,
       .bytes = static_cast<std::uint32_t>(window_.received()),
       .flags = has_immediate(packet.opcode) ? unsigned{IBV_WC_WITH_IMM}
                : has_key                    ? unsigned{IBV_WC_WITH_INV}
                                             : 0,
       .immediate = packet.immediate,
       .key = packet.invalidated_key});
}

void Responder::refuse(const ConnectedPacket& packet, std::uint8_t nak) {
  if (!is_reliable()) return drop_message(packet);
  window_.reject(Aeth::Kind::nak, nak);
  if (window_.message() == ReceiveWindow::Message::send && qp_.receives().waiting() != 0) {
    complete_receive(packet, IBV_WC_REM_INV_REQ_ERR);
  } else {
    hca_.events.raise(AsyncEvent{event_of(nak), nullptr, &qp_});
  }
  hca_.completions.enter_error(qp_);
}

void Responder::drop_message(const ConnectedPacket& packet) {
  ++hca_.counters.at(qp_.port()).dropped_messages;
  window_.drop(packet);
}

/// Builds responses. A repeated READ of memory that can no longer be read is no error, and is not
/// answered: the peer may have the first response, and may have ended its own access. Otherwise it
/// asks again.
void Responder::build(Outbox& to) {
  assert(to.empty());
  std::size_t packets = 0;
  for (std::size_t entry = 0; entry < window_.responses().size(); ++entry) {
    const auto& response = window_.responses()[entry];
    for (auto index = response.sent; index < response.packets;) {
      if (packets >= kSendBatch) return;
      const auto nak = build_packet(response, index, to);
      if (!nak) {
        const auto built = to.packets().back().gso.packets;
        index += built;
        packets += built;
        continue;
      }
      to.remove_last();
      if (!to.empty()) return;
      if (response.is_repeated) {
        window_.drop_repeated();
        return build(to);
      }
      window_.replace_responses(*nak);
      hca_.events.raise(AsyncEvent{event_of(*nak), nullptr, &qp_});
      hca_.completions.enter_error(qp_);
      (void)build_packet(window_.responses().front(), 0, to);
      return;
    }
  }
}

/// Appends a packet of a response. Returns the NAK to send instead if the memory cannot be read: it
/// has been deregistered since the READ was accepted, or pages are missing.
Responder::Nak Responder::build_packet(const Response& response, std::uint32_t index, Outbox& to) {
  auto& out = to.append();
  ConnectedPacket packet;
  packet.service = service_;
  packet.bth.psn = response.psn + index;
  packet.aeth = response.aeth;
  packet.original = response.original;
  if (response.kind == Response::Kind::atomic) packet.opcode = ConnectedOpcode::atomic_acknowledge;
  if (response.kind == Response::Kind::read) {
    const auto mtu = attributes_.mtu();
    const auto offset = std::uint64_t{index} * mtu;
    packet.packets = std::min(response.packets - index, kRunBytes / mtu);
    const auto size =
        std::min<std::uint64_t>(std::uint64_t{packet.packets} * mtu, response.read.length - offset);
    packet.opcode = opcode_of_part(ConnectedOpcode::read_response_only, index == 0,
                                   index + packet.packets == response.packets);
    out.is_streamed = offset > 0 || window_.responses().size() > 1;
    if (size != 0) {
      const auto memory =
          hca_.memory.resolve(response.read.key, response.read.address + offset, size,
                              remote_user(response.shared_queue), IBV_ACCESS_REMOTE_READ);
      if (!memory) return Aeth::kRemoteAccessError;
      if (!to.add(memory, size)) return Aeth::kRemoteOperationError;
    }
  }
  write_headers(packet, attributes_, qp_, qp_.port_attributes(), out);
  return std::nullopt;
}

void Responder::sent(std::span<const OutgoingPacket> packets) {
  for (const auto& packet : packets) window_.sent(packet.gso.packets);
}

}  // namespace softib::hca
