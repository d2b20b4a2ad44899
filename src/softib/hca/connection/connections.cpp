#include "softib/hca/connection/connections.hpp"

#include <cassert>
#include <utility>

#include "softib/core/packet_run.hpp"
#include "wire/congestion_notification.hpp"

namespace softib::hca {

using ipoib::TimePoint;
using ipoib::wire::ConnectedPacket;

void Connections::remove(Connection& connection) {
  set_needs_responses(connection, false);
  schedule_.remove(connection);
}

void Connections::posted(Connection& connection) {
  if (!connection.needs_responses) schedule_.activate(connection);
}

void Connections::change_state(Connection& connection, ibv_qp_state from) {
  if (connection.qp().state() == IBV_QPS_RESET) schedule_.stop_waiting(connection);
  connection.change_state(from);
  schedule_.activate(connection);
}

void Connections::receive(const ArrivedPacket& from) {
  if (from.gso.packets == 1) {
    if (hca_.ports.are_ethernet() && take_notification(from)) return;
    if (const auto packet = ConnectedPacket::parse(from.bytes)) {
      return receive(*packet, packet->payload.size(), from.port);
    }
  } else if (const auto run = PacketRun::parse(from.bytes, from.gso)) {
    const auto* const qp = qps_.find(run->whole().bth.destination);
    if (qp != nullptr && qp->is_connected() && qp->connection().expects(*run)) {
      return receive(run->whole(), run->mtu(), from.port);
    }
    for (std::uint32_t i = 0; i < from.gso.packets; ++i)
      receive(run->packet(i), run->mtu(), from.port);
    return;
  }
  hca_.counters.at(from.port).drop_malformed += from.gso.packets;
}

/// Returns the connection that the packet is for, if `takes` says that it takes it; else null.
template <class Takes>
Connection* Connections::accept(const Arrival& arrival, Takes takes) {
  if (!admission_.enters(arrival) || !admission_.is_for_port(arrival)) return nullptr;
  auto* const qp = qps_.find(arrival.headers.bth.destination);
  if (qp == nullptr || !qp->is_connected() || !takes(qp->connection())) {
    hca_.counters.at(arrival.port).drop_unknown_qp += arrival.packets;
    return nullptr;
  }
  if (!admission_.reaches(*qp, arrival)) return nullptr;
  if (!qp->connection().is_from_peer(arrival.headers)) {
    hca_.counters.at(arrival.port).drop_lid += arrival.packets;
    return nullptr;
  }
  return &qp->connection();
}

/// Returns whether it is a congestion notification.
bool Connections::take_notification(const ArrivedPacket& from) {
  const auto packet = ipoib::wire::CongestionNotification::parse(from.bytes);
  if (!packet) return false;
  auto* const connection =
      accept({*packet, packet->payload.size(), from.port}, [](const Connection&) { return true; });
  if (connection != nullptr) connection->congestion_notified();
  return true;
}

/// Handles a packet, or several as one, of which the longest has `longest` bytes of payload.
void Connections::receive(const ConnectedPacket& packet, std::size_t longest, std::uint8_t port) {
  auto* const connection = accept({packet, longest, port, packet.packets},
                                  [&](const Connection& one) { return one.takes(packet); });
  if (connection == nullptr) return;
  schedule_.activate(*connection);
  connection->receive(packet);
}

TimePoint Connections::serve(TimePoint now, ConnectedSink& sink) {
  const auto& sent = hca_.counters.sent_packets;
  const auto until = sent + kPacketsPerServe;
  while (schedule_.has_active() && sent < until) {
    auto& connection = static_cast<Connection&>(schedule_.take());
    if (serve(connection, now, sink) == Connection::Left::more) schedule_.activate(connection);
  }
  schedule_.postpone_active();
  return schedule_.next_timer();
}

Connection::Left Connections::serve(Connection& connection, TimePoint now, ConnectedSink& sink) {
  using Left = Connection::Left;
  const auto& qp = connection.qp();
  if (qp.state() == IBV_QPS_RESET || qp.state() == IBV_QPS_INIT) {
    set_needs_responses(connection, false);
    return Left::nothing;
  }
  connection.requester.check_timeout(now, sink);
  const auto receiver = connection.receiver();
  const auto left =
      schedule_.admits(connection, receiver) ? connection.send(now, outbox_, sink) : Left::no_room;
  if (left == Left::no_room) {
    schedule_.wait_for_room(connection, receiver);
  } else {
    schedule_.stop_waiting(connection);
  }
  if (qp.can_send()) {
    schedule_.set_timer(connection, connection.requester.update_deadline(now));
    connection.finish_draining();
  }
  set_needs_responses(connection, connection.waits_for_responses());
  return left;
}

void Connections::set_needs_responses(Connection& connection, bool needs_responses) {
  if (std::exchange(connection.needs_responses, needs_responses) == needs_responses) return;
  assert(needs_responses || need_responses_ != 0);
  needs_responses ? ++need_responses_ : --need_responses_;
}

}  // namespace softib::hca
