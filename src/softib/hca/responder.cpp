#include "softib/hca/responder.hpp"

#include <algorithm>

#include "softib/hca/connection_attributes.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::RcOpcode;
using ipoib::wire::RcPacket;

namespace {

constexpr std::uint32_t kMsnMask = 0xffffff;

/// What a request packet is in its message.
struct Part {
  Responder::Message message;
  bool begins;
  bool ends;
};

/// A READ or atomic operation is complete in one packet, and belongs to no message.
Part part_of(RcOpcode opcode) {
  using enum Responder::Message;
  switch (opcode) {
    case RcOpcode::send_first:
      return {send, true, false};
    case RcOpcode::send_middle:
      return {send, false, false};
    case RcOpcode::send_last:
    case RcOpcode::send_last_immediate:
      return {send, false, true};
    case RcOpcode::send_only:
    case RcOpcode::send_only_immediate:
      return {send, true, true};
    case RcOpcode::write_first:
      return {write, true, false};
    case RcOpcode::write_middle:
      return {write, false, false};
    case RcOpcode::write_last:
    case RcOpcode::write_last_immediate:
      return {write, false, true};
    case RcOpcode::write_only:
    case RcOpcode::write_only_immediate:
      return {write, true, true};
    case RcOpcode::read_request:
    case RcOpcode::read_response_first:
    case RcOpcode::read_response_middle:
    case RcOpcode::read_response_last:
    case RcOpcode::read_response_only:
    case RcOpcode::acknowledge:
    case RcOpcode::atomic_acknowledge:
    case RcOpcode::compare_swap:
    case RcOpcode::fetch_add:
      break;
  }
  return {none, true, true};
}

Response read_response(const RcPacket& packet, std::uint32_t mtu) {
  return {.psn = packet.bth.psn,
          .kind = Response::Kind::read,
          .read = packet.reth,
          .packets = packet_count(packet.reth.length, mtu)};
}

}  // namespace

void Responder::start(Psn first) {
  expected_ = first;
  msn_ = 0;
  message_ = Message::none;
  received_ = 0;
  has_rejected_ = false;
  atomic_results_.clear();
  forget_responses();
}

bool Responder::may_follow(const RcPacket& packet, std::uint32_t mtu) const {
  const auto part = part_of(packet.opcode);
  if (part.begins != (message_ == Message::none)) return false;
  if (!part.begins && part.message != message_) return false;
  const auto size = packet.payload.size();
  if (!part.ends) return size == mtu;
  return size <= mtu && (part.begins || size != 0);
}

void Responder::accept(const RcPacket& packet) {
  const auto part = part_of(packet.opcode);
  if (part.begins) {
    received_ = 0;
    write_ = packet.reth;
  }
  received_ += packet.payload.size();
  message_ = part.ends ? Message::none : part.message;
  if (part.ends) msn_ = (msn_ + 1) & kMsnMask;
  advance(1);
  if (packet.bth.ack_request) owe_ack();
}

void Responder::accept_read(const RcPacket& packet, std::uint32_t mtu) {
  msn_ = (msn_ + 1) & kMsnMask;
  add(read_response(packet, mtu));
  advance(responses_.back().packets);
}

void Responder::repeat_read(const RcPacket& packet, std::uint32_t mtu) {
  auto response = read_response(packet, mtu);
  response.is_repeated = true;
  add(response);
}

void Responder::accept_atomic(const RcPacket& packet, std::uint64_t original) {
  msn_ = (msn_ + 1) & kMsnMask;
  if (atomic_results_.size() == kMaxReads) atomic_results_.pop_front();
  atomic_results_.push_back({packet.bth.psn, original});
  add({.psn = packet.bth.psn, .kind = Response::Kind::atomic, .original = original});
  advance(1);
}

void Responder::repeat_atomic(const RcPacket& packet) {
  const auto found = std::ranges::find(atomic_results_, packet.bth.psn, &AtomicResult::psn);
  if (found == atomic_results_.end()) return;
  add({.psn = found->psn,
       .kind = Response::Kind::atomic,
       .original = found->original,
       .is_repeated = true});
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

void Responder::sent() {
  auto& front = responses_.front();
  if (++front.sent < front.packets) return;
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
