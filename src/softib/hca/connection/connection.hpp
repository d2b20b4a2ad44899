// The transport service of a queue pair of type RC, UC or XRC (IBA 9.7, 9.8, annex A14).
#pragma once

#include <cstdint>

#include "softib/core/packet_run.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/hca/connection/attributes.hpp"
#include "softib/hca/connection/requester.hpp"
#include "softib/hca/connection/responder.hpp"
#include "softib/hca/connection/room_queues.hpp"

namespace softib::hca {

class Connection : public ScheduleEntry {
 public:
  using Service = ipoib::wire::ConnectedService;
  using ConnectedPacket = ipoib::wire::ConnectedPacket;
  /// Whether something is left to send; `no_room` means none at the receiver.
  enum class Left : std::uint8_t { nothing, more, no_room };

  /// Both must outlive the connection.
  Connection(QueuePair& qp, Service of, const Dependencies& hca);

  [[nodiscard]] QueuePair& qp() const { return qp_; }
  /// The process that its packets go to.
  [[nodiscard]] PeerProcess receiver() const {
    return {attributes.path.dlid, QpnLayout::slot(attributes.peer)};
  }

  // Packets of the peer.
  /// Whether the connection takes such packets: it has their service, and the side they are for.
  [[nodiscard]] bool takes(const ConnectedPacket& packet) const;
  /// Whether a packet comes from the peer. It names no source queue pair, so LID and GID must be
  /// those that the connection leads to (IBA 9.6.1.5).
  [[nodiscard]] bool is_from_peer(const ipoib::wire::DataPacket& packet) const;
  /// Whether all packets of a run come as expected, so that they may be handled as one.
  [[nodiscard]] bool expects(const PacketRun& run) const;
  /// Handles a packet, or a run, that has passed all checks.
  void receive(const ConnectedPacket& packet);
  /// The peer has got packets of this connection that a switch has marked.
  void congestion_notified();

  /// Sends responses, then requests, by way of `outbox`.
  [[nodiscard]] Left send(ipoib::TimePoint now, Outbox& outbox, ConnectedSink& sink);
  /// To call when the state of the queue pair, which was `from`, and its attributes have been
  /// changed.
  void change_state(ibv_qp_state from);
  /// In SQD: raises the event when the requests that were begun are complete.
  void finish_draining();
  /// Whether requests, or the end of a drain, wait for responses.
  [[nodiscard]] bool waits_for_responses() const;
  /// Fills in what ibv_query_qp() reports.
  void report(ibv_qp_attr& attr) const;

  const Service service;
  ConnectionAttributes attributes;
  Requester requester;
  Responder responder;
  bool needs_responses = false;  ///< counted by class Connections

 private:
  [[nodiscard]] Left send_responses(Outbox& outbox, ConnectedSink& sink);
  [[nodiscard]] Left send_requests(Outbox& outbox, ConnectedSink& sink);
  void send_notification(ipoib::TimePoint now, ConnectedSink& sink);
  [[nodiscard]] std::size_t offer(std::span<const OutgoingPacket> packets, ConnectedSink& sink);

  QueuePair& qp_;
  const Dependencies& hca_;
  bool is_established_ = false;  ///< a packet of the peer has come
  bool is_draining_ = false;     ///< in SQD, and requests that were started are not complete
  bool is_marked_ = false;       ///< a packet of the peer was, and the peer has not been told
  ipoib::TimePoint may_notify_at_{};
  bool is_path_too_small_ = false;  ///< for a packet that has been offered
};

}  // namespace softib::hca
