// The connections of an HCA (IBA 9.7, 9.8): finds the connection of a packet, and decides which
// connection sends next.
//
// A stimulus that may give a connection something to send makes it active. serve() sends for active
// ones in turn.
#pragma once

#include "softib/core/packet_sink.hpp"
#include "softib/hca/admission.hpp"
#include "softib/hca/connection/connection.hpp"
#include "softib/hca/connection/schedule.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/outbox.hpp"
#include "softib/hca/queue_pair_table.hpp"

namespace softib::hca {

class Connections {
 public:
  /// Both must outlive this object.
  Connections(const Dependencies& hca, const QueuePairTable& qps)
      : hca_(hca), qps_(qps), admission_(hca.ports, hca.counters) {}

  /// To call before the queue pair is destroyed.
  void remove(Connection& connection);
  /// To call when requests have been posted. If others wait, the new ones are sent with these.
  void posted(Connection& connection);
  /// Takes a packet or a run from the fabric that is no datagram.
  void receive(const ArrivedPacket& from);
  /// To call when the state of the queue pair, which was `from`, and its attributes have been
  /// changed.
  void change_state(Connection& connection, ibv_qp_state from);

  /// Whether requests, or the end of a drain, wait for responses.
  [[nodiscard]] bool needs_responses() const { return need_responses_ != 0; }
  [[nodiscard]] bool has_active() const { return schedule_.has_active(); }
  /// When to call resume() for packets that could not be sent yet; kNever if there are none.
  [[nodiscard]] ipoib::TimePoint resume_at(ipoib::TimePoint now) const {
    return schedule_.resume_at(now);
  }
  /// Lets the next serve() go on with such packets.
  void resume() { schedule_.resume(); }
  /// Activates the connections whose deadline has passed.
  void expire(ipoib::TimePoint now) { schedule_.expire(now); }
  /// Sends for the active connections. Returns the next deadline, for expire().
  [[nodiscard]] ipoib::TimePoint serve(ipoib::TimePoint now, ConnectedSink& sink);

 private:
  void receive(const ipoib::wire::ConnectedPacket& packet, std::size_t longest, std::uint8_t port);
  template <class Takes>
  [[nodiscard]] Connection* accept(const Arrival& arrival, Takes takes);
  [[nodiscard]] bool take_notification(const ArrivedPacket& from);
  [[nodiscard]] Connection::Left serve(Connection& connection, ipoib::TimePoint now,
                                       ConnectedSink& sink);
  void set_needs_responses(Connection& connection, bool needs_responses);

  const Dependencies& hca_;
  const QueuePairTable& qps_;
  Admission admission_;
  ConnectionSchedule schedule_;
  std::size_t need_responses_ = 0;  ///< connections
  Outbox outbox_;                   ///< of the connection that is being served
};

}  // namespace softib::hca
