#include "softib/hca/connections.hpp"

#include <algorithm>

#include "softib/core/mad_packet.hpp"
#include "softib/hca/hca.hpp"
#include "softib/hca/packet_run.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {

using ipoib::TimePoint;
using ipoib::wire::ConnectedPacket;

namespace {

/// A packet names no source queue pair, so it must come from where the connection leads (IBA
/// 9.6.1.5).
bool comes_from_peer(const ConnectedPacket& packet, const ConnectionAttributes& connection) {
  const auto& path = connection.path;
  if (packet.lrh.slid != Lid(path.dlid)) return false;
  return !packet.grh || path.is_global == 0 ||
         packet.grh->sgid == Gid(std::to_array(path.grh.dgid.raw));
}

/// A queue pair of XRC has only one side: it either sends requests, or receives them.
bool has_side_for(const QueuePair& qp, const ConnectedPacket& packet) {
  const auto type = qp.config().type;
  return type != (ipoib::wire::is_response(packet.opcode) ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND);
}

/// Whether all packets of a run come as the connection expects, so that they may be handled as one.
bool expects(const Connection& connection, const PacketRun& run) {
  const auto& whole = run.whole();
  if (run.mtu() != connection.attributes.mtu()) return false;
  if (!is_read_response(whole.opcode)) return whole.bth.psn == connection.responder.expected();
  const auto& requester = connection.requester;
  return whole.bth.psn == requester.unacked() &&
         requester.is_outstanding(whole.bth.psn + (whole.packets - 1));
}

bool sends_requests(ibv_qp_state state) { return state == IBV_QPS_RTS || state == IBV_QPS_SQD; }

}  // namespace

void Connections::remove(QueuePair& qp) {
  set_needs_responses(qp, false);
  schedule_.remove(qp);
}

void Connections::posted(QueuePair& qp) {
  if (!qp.connection_->needs_responses) schedule_.activate(qp);
}

void Connections::change_state(QueuePair& qp, ibv_qp_state from) {
  auto& connection = *qp.connection_;
  switch (qp.state_) {
    case IBV_QPS_RTR:
      connection.responder.start(Psn(connection.attributes.receive_psn));
      connection.is_established = false;
      break;
    case IBV_QPS_RTS:
      if (from == IBV_QPS_RTR) connection.requester.start(Psn(connection.attributes.send_psn));
      if (from == IBV_QPS_SQE) connection.requester.start(connection.requester.next());
      connection.is_draining = false;
      break;
    case IBV_QPS_SQD:
      if (from == IBV_QPS_RTS) connection.is_draining = true;
      break;
    case IBV_QPS_RESET:
      schedule_.stop_waiting(qp);
      connection.requester.start(Psn());
      connection.attributes = {};
      [[fallthrough]];
    case IBV_QPS_ERR:
      connection.responder.forget_responses();
      connection.is_draining = false;
      break;
    case IBV_QPS_INIT:
    case IBV_QPS_SQE:
    case IBV_QPS_UNKNOWN:
      break;
  }
  schedule_.activate(qp);
}

void Connections::receive(const ArrivedPacket& from) {
  if (from.gso.packets == 1) {
    if (const auto packet = ConnectedPacket::parse(from.bytes)) {
      return receive(*packet, packet->payload.size());
    }
  } else if (const auto run = PacketRun::parse(from.bytes, from.gso)) {
    const auto* const qp = hca_.find(run->whole().bth.destination);
    if (qp != nullptr && qp->is_connected() && expects(*qp->connection_, *run)) {
      return receive(run->whole(), run->mtu());
    }
    for (std::uint32_t i = 0; i < from.gso.packets; ++i) receive(run->packet(i), run->mtu());
    return;
  }
  hca_.counters_.drop_malformed += from.gso.packets;
}

/// A packet, or several as one; the longest of them has so many bytes of payload.
void Connections::receive(const ConnectedPacket& packet, std::size_t longest) {
  QueuePair* const qp = accept(packet, longest);
  if (qp == nullptr) return;
  auto& connection = *qp->connection_;
  hca_.counters_.received_packets += packet.packets;
  hca_.counters_.received_bytes += packet.payload.size();
  if (!std::exchange(connection.is_established, true) && qp->state_ == IBV_QPS_RTR) {
    hca_.raise(AsyncEvent{IBV_EVENT_COMM_EST, nullptr, qp});
  }
  schedule_.activate(*qp);
  if (!connection.is_reliable()) {
    execute_unreliable(*qp, packet);
  } else if (packet.opcode == ipoib::wire::ConnectedOpcode::acknowledge) {
    handle_ack(*qp, packet);
  } else if (ipoib::wire::is_read_response(packet.opcode) ||
             packet.opcode == ipoib::wire::ConnectedOpcode::atomic_acknowledge) {
    handle_response(*qp, packet);
  } else {
    execute(*qp, packet);
  }
}

/// The checks of IBA 9.6: of the port, then of the queue pair.
QueuePair* Connections::accept(const ConnectedPacket& packet, std::size_t longest) {
  auto& counters = hca_.counters_;
  const auto& port = hca_.port_;
  const auto drop = [&](std::uint64_t& counter) -> QueuePair* {
    counter += packet.packets;
    return nullptr;
  };
  if (port.state != PortState::active) return drop(counters.drop_port);
  if (longest > ipoib::wire::mtu_bytes(port.mtu)) return drop(counters.drop_length);
  if (!port.has(packet.lrh.dlid)) return drop(counters.drop_lid);
  if (!admits_route(port, packet.grh)) return drop(counters.drop_gid);
  QueuePair* const qp = hca_.find(packet.bth.destination);
  if (qp == nullptr || qp->connection_ == nullptr || qp->connection_->service != packet.service ||
      !has_side_for(*qp, packet)) {
    return drop(counters.drop_unknown_qp);
  }
  if (!qp->receives()) return drop(counters.drop_qp_state);
  if (qp->port_ != port.number) return drop(counters.drop_port);
  if (!port.pkeys[qp->pkey_index()].admits(packet.bth.pkey)) return drop(counters.drop_pkey);
  if (!comes_from_peer(packet, qp->connection_->attributes)) return drop(counters.drop_lid);
  return qp;
}

TimePoint Connections::serve(TimePoint now, ConnectedSink& sink) {
  const auto& sent = hca_.counters_.sent_packets;
  const auto until = sent + kPacketsPerServe;
  while (schedule_.has_active() && sent < until) {
    auto& qp = schedule_.take();
    if (serve(qp, now, sink) == Left::more) schedule_.activate(qp);
  }
  schedule_.postpone_active();
  return schedule_.next_timer();
}

Connections::Left Connections::serve(QueuePair& qp, TimePoint now, ConnectedSink& sink) {
  auto& connection = *qp.connection_;
  auto& requester = connection.requester;
  if (qp.state_ == IBV_QPS_RESET || qp.state_ == IBV_QPS_INIT) {
    set_needs_responses(qp, false);
    return Left::nothing;
  }
  check_timeout(qp, now, sink);
  const auto left = schedule_.admits(qp) ? send(qp, now, sink) : Left::no_room;
  if (left == Left::no_room) {
    schedule_.wait_for_room(qp);
  } else {
    schedule_.stop_waiting(qp);
  }
  if (sends_requests(qp.state_)) {
    schedule_.set_timer(qp, requester.update_deadline(now, connection.attributes.ack_timeout()));
    finish_draining(qp);
  }
  set_needs_responses(
      qp, sends_requests(qp.state_) && (requester.has_unsent() || connection.is_draining));
  return left;
}

Connections::Left Connections::send(QueuePair& qp, TimePoint now, ConnectedSink& sink) {
  const auto left = send_responses(qp, sink);
  if (left == Left::no_room || !sends_requests(qp.state_)) return left;
  if (qp.connection_->requester.is_paused(now)) return left;
  return std::max(left, send_requests(qp, sink));
}

void Connections::set_needs_responses(QueuePair& qp, bool needs_responses) {
  if (std::exchange(qp.connection_->needs_responses, needs_responses) == needs_responses) return;
  needs_responses ? ++need_responses_ : --need_responses_;
}

/// "Send Queue Drained" (IBA 11.6.3.2): the requests that were begun are complete.
void Connections::finish_draining(QueuePair& qp) {
  auto& connection = *qp.connection_;
  if (qp.state_ != IBV_QPS_SQD || !connection.is_draining || connection.requester.has_started()) {
    return;
  }
  connection.is_draining = false;
  if (qp.notify_drained_) hca_.raise(AsyncEvent{IBV_EVENT_SQ_DRAINED, nullptr, &qp});
}

}  // namespace softib::hca
