#include "softib/hca/responder.hpp"

#include <algorithm>

#include "softib/hca/connection_attributes.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

namespace {

constexpr std::uint32_t kMsnMask = 0xffffff;

/// A READ or atomic operation is complete in one packet, and belongs to no message.
Responder::Message message_of(ConnectedOpcode opcode) {
  using enum Responder::Message;
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

/// Like that of a READ of no bytes.
Response atomic_write_response(const ConnectedPacket& packet) {
  return {.psn = packet.bth.psn, .kind = Response::Kind::read};
}

}  // namespace

void Responder::start(Psn first) {
  expected_ = first;
  msn_ = 0;
  message_ = Message::none;
  is_dropping_ = has_rejected_ = false;
  atomic_results_.clear();
}

bool Responder::may_follow(const ConnectedPacket& packet, std::uint32_t mtu) const {
  const bool begins = begins_message(packet.opcode);
  if (begins != (message_ == Message::none)) return false;
  if (!begins && message_of(packet.opcode) != message_) return false;
  const auto size = packet.payload.size();
  const auto longest = std::size_t{packet.packets} * mtu;
  if (!ends_message(packet.opcode)) return size == longest;
  return size <= longest && (begins || size != 0);
}

void Responder::accept(const ConnectedPacket& packet) {
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

void Responder::drop(const ConnectedPacket& packet) {
  message_ = Message::none;
  is_dropping_ = !ends_message(packet.opcode);
  advance(packet.packets);
}

void Responder::accept_read(const ConnectedPacket& packet, std::uint32_t mtu) {
  msn_ = (msn_ + 1) & kMsnMask;
  add(read_response(packet, mtu));
  advance(responses_.back().packets);
}

void Responder::repeat_read(const ConnectedPacket& packet, std::uint32_t mtu) {
  auto response = read_response(packet, mtu);
  response.is_repeated = true;
  add(response);
}

void Responder::accept_atomic(const ConnectedPacket& packet, std::uint64_t original) {
  msn_ = (msn_ + 1) & kMsnMask;
  if (atomic_results_.size() == kMaxReads) atomic_results_.pop_front();
  atomic_results_.push_back({packet.bth.psn, original});
  add({.psn = packet.bth.psn, .kind = Response::Kind::atomic, .original = original});
  advance(1);
}

void Responder::repeat_atomic(const ConnectedPacket& packet) {
  const auto found = std::ranges::find(atomic_results_, packet.bth.psn, &AtomicResult::psn);
  if (found == atomic_results_.end()) return;
  add({.psn = found->psn,
       .kind = Response::Kind::atomic,
       .original = found->original,
       .is_repeated = true});
}

void Responder::accept_atomic_write(const ConnectedPacket& packet) {
  msn_ = (msn_ + 1) & kMsnMask;
  add(atomic_write_response(packet));
  advance(1);
}

void Responder::repeat_atomic_write(const ConnectedPacket& packet) {
  auto response = atomic_write_response(packet);
  response.is_repeated = true;
  add(response);
}

/// Repeated ones do not count as pending: the requester counts a request once, however often it
/// arrives.
void Responder::add(const Response& response) {
  responses_.push_back(response);
  responses_.back().aeth.msn = msn_;
  if (!response.is_repeated) ++pending_reads_;
}

void Responder::advance(std::uint32_t packets) {
  expected_ = expected_ + packets;
  has_rejected_ = false;
}

/// One acknowledgement does for all requests since the last one, so for a whole batch of packets.
void Responder::owe_ack() {
  if (!is_reliable_) return;
  const Response ack{.psn = expected_.previous(), .aeth = {.msn = msn_}};
  if (owes() && responses_.back().kind == Response::Kind::acknowledge &&
      responses_.back().aeth.kind == Aeth::Kind::ack) {
    responses_.back() = ack;
  } else if (!is_full()) {
    responses_.push_back(ack);
  }
}

void Responder::reject_early() {
  if (!has_rejected_) reject(Aeth::Kind::nak, Aeth::kSequenceError);
}

void Responder::reject(Aeth::Kind kind, std::uint8_t value) {
  if (is_full()) return;
  has_rejected_ = true;
  responses_.push_back({.psn = expected_, .aeth = {kind, value, msn_}});
}

void Responder::sent(std::uint32_t packets) {
  auto& front = responses_.front();
  front.sent += packets;
  if (front.sent < front.packets) return;
  if (front.kind != Response::Kind::acknowledge && !front.is_repeated) --pending_reads_;
  responses_.pop_front();
}

void Responder::replace_responses(std::uint8_t nak) {
  const auto& front = responses_.front();
  const Response refusal{.psn = front.psn + front.sent,
                         .aeth = {Aeth::Kind::nak, nak, front.aeth.msn}};
  forget_responses();
  responses_.push_back(refusal);
}

void Responder::forget_responses() {
  responses_.clear();
  pending_reads_ = 0;
}

}  // namespace softib::hca
