#include "softib/hca/connection/receive_window.hpp"

#include <algorithm>
#include <cassert>

#include "softib/hca/connection/attributes.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

namespace {

constexpr std::uint32_t kMsnMask = 0xffffff;

/// A READ or atomic operation is complete in one packet, and belongs to no message.
ReceiveWindow::Message message_of(ConnectedOpcode opcode) {
  using enum ReceiveWindow::Message;
  if (ipoib::wire::is_send(opcode)) return send;
  return ipoib::wire::is_write(opcode) ? write : none;
}

Response read_response(const ConnectedPacket& packet, std::uint32_t mtu) {
  return {.psn = packet.bth.psn,
          .kind = Response::Kind::read,
          .read = packet.reth,
          .shared_queue = packet.shared_queue,
          .packets = packet_count(packet.reth.length, mtu)};
}

/// The response to an atomic write, which is like that of a READ of no bytes.
Response atomic_write_response(const ConnectedPacket& packet) {
  return {.psn = packet.bth.psn, .kind = Response::Kind::read};
}

}  // namespace

void ReceiveWindow::start(Psn first) {
  assert(!owes());
  expected_ = first;
  msn_ = 0;
  message_ = Message::none;
  is_dropping_ = has_rejected_ = false;
  atomic_results_.clear();
}

bool ReceiveWindow::may_follow(const ConnectedPacket& packet, std::uint32_t mtu) const {
  const bool begins = begins_message(packet.opcode);
  if (begins != (message_ == Message::none)) return false;
  if (!begins && message_of(packet.opcode) != message_) return false;
  const auto size = packet.payload.size();
  const auto longest = std::size_t{packet.packets} * mtu;
  if (!ends_message(packet.opcode)) return size == longest;
  return size <= longest && (begins || size != 0);
}

void ReceiveWindow::accept(const ConnectedPacket& packet) {
  if (begins_message(packet.opcode)) {
    received_ = 0;
    write_ = packet.reth;
  }
  received_ += packet.payload.size();
  const bool ends = ends_message(packet.opcode);
  message_ = ends ? Message::none : message_of(packet.opcode);
  is_dropping_ = false;
  if (ends) msn_ = (msn_ + 1) & kMsnMask;
  advance(packet.packets);
  if (packet.bth.ack_request) owe_ack();
}

void ReceiveWindow::drop(const ConnectedPacket& packet) {
  message_ = Message::none;
  is_dropping_ = !ends_message(packet.opcode);
  advance(packet.packets);
}

void ReceiveWindow::accept_read(const ConnectedPacket& packet, std::uint32_t mtu) {
  msn_ = (msn_ + 1) & kMsnMask;
  add(read_response(packet, mtu));
  advance(responses_.back().packets);
}

void ReceiveWindow::repeat_read(const ConnectedPacket& packet, std::uint32_t mtu) {
  auto response = read_response(packet, mtu);
  response.is_repeated = true;
  add(response);
}

void ReceiveWindow::accept_atomic(const ConnectedPacket& packet, std::uint64_t original) {
  msn_ = (msn_ + 1) & kMsnMask;
  if (atomic_results_.size() == kMaxReads) atomic_results_.pop_front();
  atomic_results_.push_back({packet.bth.psn, original});
  add({.psn = packet.bth.psn, .kind = Response::Kind::atomic, .original = original});
  advance(1);
}

void ReceiveWindow::repeat_atomic(const ConnectedPacket& packet) {
  const auto found = std::ranges::find(atomic_results_, packet.bth.psn, &AtomicResult::psn);
  if (found == atomic_results_.end()) return;
  add({.psn = found->psn,
       .kind = Response::Kind::atomic,
       .original = found->original,
       .is_repeated = true});
}

void ReceiveWindow::accept_atomic_write(const ConnectedPacket& packet) {
  msn_ = (msn_ + 1) & kMsnMask;
  add(atomic_write_response(packet));
  advance(1);
}

void ReceiveWindow::repeat_atomic_write(const ConnectedPacket& packet) {
  auto response = atomic_write_response(packet);
  response.is_repeated = true;
  add(response);
}

/// Adds a response. Repeated ones do not count as pending: the requester counts a request once,
/// however often it arrives.
void ReceiveWindow::add(const Response& response) {
  assert(!is_full() && response.packets != 0);
  responses_.push_back(response);
  responses_.back().aeth.msn = msn_;
  if (!response.is_repeated) ++pending_reads_;
}

void ReceiveWindow::advance(std::uint32_t packets) {
  expected_ = expected_ + packets;
  has_rejected_ = false;
}

/// Owes an acknowledgement; one is enough for all requests since the last one, so for a whole batch
/// of packets.
void ReceiveWindow::owe_ack() {
  if (!is_reliable_) return;
  const Response ack{.psn = expected_.previous(), .aeth = {.msn = msn_}};
  if (owes() && responses_.back().kind == Response::Kind::acknowledge &&
      responses_.back().aeth.kind == Aeth::Kind::ack) {
    responses_.back() = ack;
  } else if (!is_full()) {
    responses_.push_back(ack);
  }
}

void ReceiveWindow::reject_early() {
  if (!has_rejected_) reject(Aeth::Kind::nak, Aeth::kSequenceError);
}

void ReceiveWindow::reject(Aeth::Kind kind, std::uint8_t value) {
  if (is_full()) return;
  has_rejected_ = true;
  responses_.push_back({.psn = expected_, .aeth = {kind, value, msn_}});
}

void ReceiveWindow::sent(std::uint32_t packets) {
  assert(owes());
  auto& front = responses_.front();
  assert(packets <= front.packets - front.sent);
  front.sent += packets;
  if (front.sent < front.packets) return;
  if (front.kind != Response::Kind::acknowledge && !front.is_repeated) {
    assert(pending_reads_ != 0);
    --pending_reads_;
  }
  responses_.pop_front();
}

void ReceiveWindow::replace_responses(std::uint8_t nak) {
  assert(owes());
  const auto& front = responses_.front();
  const Response refusal{.psn = front.psn + front.sent,
                         .aeth = {Aeth::Kind::nak, nak, front.aeth.msn}};
  forget_responses();
  responses_.push_back(refusal);
}

void ReceiveWindow::forget_responses() {
  responses_.clear();
  pending_reads_ = 0;
}

}  // namespace softib::hca
