#include "softib/hca/connection/connection.hpp"

#include <algorithm>
#include <utility>

#include "softib/hca/admission.hpp"
#include "softib/hca/events.hpp"
#include "softib/hca/limits.hpp"
#include "softib/hca/queue_pair.hpp"
#include "wire/congestion_notification.hpp"

namespace softib::hca {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

Connection::Connection(QueuePair& qp, Service of, const Dependencies& hca)
    : service(of),
      requester(qp, of, attributes, hca),
      responder(qp, of, attributes, hca),
      qp_(qp),
      hca_(hca) {}

/// A queue pair of XRC has only one side: it either sends requests, or receives them.
bool Connection::takes(const ConnectedPacket& packet) const {
  if (packet.service != service) return false;
  const bool is_response = ipoib::wire::is_response(packet.opcode);
  return qp_.config().type != (is_response ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND);
}

bool Connection::is_from_peer(const ipoib::wire::DataPacket& packet) const {
  const auto& path = attributes.path;
  // What a program gives as DLID of an Ethernet port means nothing.
  if (!hca_.ports.are_ethernet() && packet.lrh.slid != Lid(path.dlid)) return false;
  return !packet.grh || path.is_global == 0 ||
         packet.grh->sgid == Gid(std::to_array(path.grh.dgid.raw));
}

bool Connection::expects(const PacketRun& run) const {
  if (run.mtu() != attributes.mtu()) return false;
  const auto& whole = run.whole();
  return is_read_response(whole.opcode) ? requester.expects_responses(whole)
                                        : whole.bth.psn == responder.expected();
}

void Connection::receive(const ConnectedPacket& packet) {
  hca_.counters.received_packets += packet.packets;
  hca_.counters.received_bytes += packet.payload.size();
  is_marked_ |=
      hca_.ports.are_ethernet() && packet.grh && ipoib::wire::is_marked(packet.grh->traffic_class);
  if (!std::exchange(is_established_, true) && qp_.state() == IBV_QPS_RTR) {
    hca_.events.raise(AsyncEvent{IBV_EVENT_COMM_EST, nullptr, &qp_});
  }
  if (packet.opcode == ConnectedOpcode::acknowledge) {
    requester.handle_acknowledge(packet);
  } else if (ipoib::wire::is_response(packet.opcode)) {
    requester.handle_response(packet);
  } else {
    responder.handle_request(packet);
  }
}

void Connection::congestion_notified() {
  ++hca_.counters.at(qp_.port()).notifications_received;
  requester.congested();
}

Connection::Left Connection::send(ipoib::TimePoint now, Outbox& outbox, ConnectedSink& sink) {
  if (is_marked_ && now >= may_notify_at_) send_notification(now, sink);
  auto left = send_responses(outbox, sink);
  if (left != Left::no_room && qp_.can_send() && !requester.is_paused(now)) {
    left = std::max(left, send_requests(outbox, sink));
  }
  if (!std::exchange(is_path_too_small_, false)) return left;
  hca_.events.raise(AsyncEvent{IBV_EVENT_QP_FATAL, nullptr, &qp_});
  requester.abandon(IBV_WC_LOC_LEN_ERR);
  return Left::nothing;
}

Connection::Left Connection::send_responses(Outbox& outbox, ConnectedSink& sink) {
  outbox.clear();
  responder.build(outbox);
  const auto sent = offer(outbox.packets(), sink);
  responder.sent(outbox.packets().first(sent));
  if (sent < outbox.size()) return Left::no_room;
  return responder.owes() ? Left::more : Left::nothing;
}

Connection::Left Connection::send_requests(Outbox& outbox, ConnectedSink& sink) {
  outbox.clear();
  requester.build(outbox);
  const auto sent = offer(outbox.packets(), sink);
  requester.sent(sent);
  if (sent < outbox.size()) return Left::no_room;
  // A shorter batch was ended by the window, an error, or the last request.
  return sent == 0 ? Left::nothing : Left::more;
}

/// Tells the peer that its packets were marked, at most once in kNotificationInterval. READ
/// responses come as fast as this side asks for them, so it also slows itself down.
void Connection::send_notification(ipoib::TimePoint now, ConnectedSink& sink) {
  is_marked_ = false;
  may_notify_at_ = now + kNotificationInterval;
  if (requester.has_started()) requester.congested();
  OutgoingPacket out;
  write_notification(attributes, qp_, qp_.port_attributes(), out);
  // One that there is no room for is followed by others if the congestion lasts.
  if (offer({&out, 1}, sink) != 0) ++hca_.counters.at(qp_.port()).notifications_sent;
}

/// Offers packets to the receiver, and returns how many of them, from the first, are done with.
/// Packets that the port cannot send are lost; a reliable connection sends them again when no
/// acknowledgement comes. One that is too long for the path never gets there: the queue pair fails.
std::size_t Connection::offer(std::span<const OutgoingPacket> packets, ConnectedSink& sink) {
  if (packets.empty()) return 0;
  const Admission admission(hca_.ports, hca_.counters);
  if (!admission.leaves(qp_, count_packets(packets))) return packets.size();
  const auto result = sink.try_send(packets);
  const auto sent = packets.first(result.done);
  hca_.counters.sent_packets += count_packets(sent);
  for (const auto& packet : sent) hca_.counters.sent_bytes += packet.payload_size;
  is_path_too_small_ |= result.is_too_long;
  return sent.size();
}

void Connection::change_state(ibv_qp_state from) {
  switch (qp_.state()) {
    case IBV_QPS_RTR:
      responder.start(Psn(attributes.receive_psn));
      is_established_ = false;
      break;
    case IBV_QPS_RTS:
      if (from == IBV_QPS_RTR) requester.start(Psn(attributes.send_psn));
      if (from == IBV_QPS_SQE) requester.start(requester.next_psn());
      is_draining_ = false;
      break;
    case IBV_QPS_SQD:
      if (from == IBV_QPS_RTS) is_draining_ = true;
      break;
    case IBV_QPS_RESET:
      requester.start(Psn());
      attributes = {};
      is_marked_ = false;
      may_notify_at_ = {};
      [[fallthrough]];
    case IBV_QPS_ERR:
      responder.forget_responses();
      is_draining_ = false;
      break;
    case IBV_QPS_INIT:
    case IBV_QPS_SQE:
    case IBV_QPS_UNKNOWN:
      break;
  }
}

/// Raises the event "Send Queue Drained" (IBA 11.6.3.2) when that is so.
void Connection::finish_draining() {
  if (qp_.state() != IBV_QPS_SQD || !is_draining_ || requester.has_started()) return;
  is_draining_ = false;
  if (qp_.notifies_drained()) {
    hca_.events.raise(AsyncEvent{IBV_EVENT_SQ_DRAINED, nullptr, &qp_});
  }
}

bool Connection::waits_for_responses() const {
  return qp_.can_send() && (requester.has_unsent() || is_draining_);
}

void Connection::report(ibv_qp_attr& attr) const {
  attributes.report(attr);
  attr.rq_psn = responder.expected().value();
  attr.sq_psn = requester.next_psn().value();
  attr.sq_draining = is_draining_ ? 1 : 0;
}

}  // namespace softib::hca
