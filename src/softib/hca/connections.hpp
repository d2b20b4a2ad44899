// The connections of an HCA (IBA 9.7, 9.8): executes the requests of the peers, completes our own,
// and sends the packets of both.
//
// What may give a connection something to send makes it active. serve() sends for active ones in
// turn: responses first, then requests.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "softib/core/packet_sink.hpp"
#include "softib/hca/completion_queue.hpp"
#include "softib/hca/connection.hpp"
#include "softib/hca/connection_schedule.hpp"
#include "softib/hca/packet_copies.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

class Hca;

class Connections {
 public:
  explicit Connections(Hca& hca) : hca_(hca) {}

  void remove(QueuePair& qp);
  /// Requests have been posted. Behind others that wait they are sent with these.
  void posted(QueuePair& qp);
  /// A packet or a run from the fabric that is not one of UD.
  void receive(const ArrivedPacket& from);
  /// The state of the queue pair was `from`, and its attributes have been applied.
  void change_state(QueuePair& qp, ibv_qp_state from);

  /// Whether requests, or the end of a drain, wait for responses.
  [[nodiscard]] bool needs_responses() const { return need_responses_ != 0; }
  [[nodiscard]] bool has_active() const { return schedule_.has_active(); }
  /// When to call resume() for packets that could not be sent yet; kNever: there are none.
  [[nodiscard]] ipoib::TimePoint resume_at(ipoib::TimePoint now) const {
    return schedule_.resume_at(now);
  }
  /// Lets the next serve() go on with them.
  void resume() { schedule_.resume(); }
  /// Activates the connections whose deadline has passed.
  void expire(ipoib::TimePoint now) { schedule_.expire(now); }
  /// Sends for the active connections. Returns the next deadline, for expire().
  [[nodiscard]] ipoib::TimePoint serve(ipoib::TimePoint now, ConnectedSink& sink);

 private:
  using ConnectedPacket = ipoib::wire::ConnectedPacket;
  using Nak = std::optional<std::uint8_t>;                    ///< its code
  enum class Left : std::uint8_t { nothing, more, no_room };  ///< to send; no_room: at the receiver

  void receive(const ConnectedPacket& packet, std::size_t longest);
  [[nodiscard]] QueuePair* accept(const ConnectedPacket& packet, std::size_t longest);
  [[nodiscard]] Left serve(QueuePair& qp, ipoib::TimePoint now, ConnectedSink& sink);
  [[nodiscard]] Left send(QueuePair& qp, ipoib::TimePoint now, ConnectedSink& sink);
  void set_needs_responses(QueuePair& qp, bool needs_responses);
  void finish_draining(QueuePair& qp);

  // connection_packets.cpp
  [[nodiscard]] Left send_responses(QueuePair& qp, ConnectedSink& sink);
  [[nodiscard]] Left send_requests(QueuePair& qp, ConnectedSink& sink);
  [[nodiscard]] std::size_t build_responses(QueuePair& qp);
  [[nodiscard]] std::size_t build_requests(QueuePair& qp);
  [[nodiscard]] Nak build_response(const QueuePair& qp, const Response& response,
                                   std::uint32_t index, std::size_t place);
  [[nodiscard]] ibv_wc_status build_request(QueuePair& qp, const RequestPacket& planned,
                                            std::size_t place);
  [[nodiscard]] ibv_wc_status gather(QueuePair& qp, std::uint32_t position, std::uint64_t offset,
                                     std::size_t size, std::size_t place);
  void write_headers(const QueuePair& qp, ConnectedPacket& packet, OutgoingPacket& out);
  [[nodiscard]] std::size_t send(const QueuePair& qp, std::size_t count, ConnectedSink& sink);

  // local_operations.cpp
  void execute_local(QueuePair& qp);
  [[nodiscard]] bool execute_local(QueuePair& qp, std::uint32_t position);
  void complete_oldest(QueuePair& qp);

  // inbound_requests.cpp
  void execute(QueuePair& qp, const ConnectedPacket& packet);
  void execute_unreliable(QueuePair& qp, const ConnectedPacket& packet);
  void execute_send(QueuePair& qp, const ConnectedPacket& packet);
  void execute_write(QueuePair& qp, const ConnectedPacket& packet);
  void execute_read(QueuePair& qp, const ConnectedPacket& packet);
  void execute_atomic(QueuePair& qp, const ConnectedPacket& packet);
  void execute_atomic_write(QueuePair& qp, const ConnectedPacket& packet);
  void repeat(QueuePair& qp, const ConnectedPacket& packet);
  [[nodiscard]] bool has_receive(QueuePair& qp, const ConnectedPacket& packet);
  [[nodiscard]] Nak select_shared(QueuePair& qp, const ConnectedPacket& packet) const;
  [[nodiscard]] bool invalidate(QueuePair& qp, const ConnectedPacket& packet);
  [[nodiscard]] KeyUser remote_user(const QueuePair& qp, std::uint32_t shared_queue) const;
  [[nodiscard]] bool may_read(const QueuePair& qp, const ConnectedPacket& packet) const;
  void complete_receive(QueuePair& qp, const ConnectedPacket& packet, ibv_wc_status status);
  void refuse(QueuePair& qp, const ConnectedPacket& packet, std::uint8_t nak);
  void drop_message(QueuePair& qp, const ConnectedPacket& packet);
  [[nodiscard]] ibv_wc_status scatter(const QueuePair& qp, std::span<const ibv_sge> elements,
                                      std::uint64_t offset, ConstBytes from);

  // inbound_responses.cpp
  void handle_ack(QueuePair& qp, const ConnectedPacket& packet);
  void handle_nak(QueuePair& qp, const ConnectedPacket& packet);
  void handle_response(QueuePair& qp, const ConnectedPacket& packet);
  [[nodiscard]] bool acknowledge(QueuePair& qp, Psn psn);
  void recover(QueuePair& qp);
  void retry(QueuePair& qp);
  void retry_when_ready(QueuePair& qp, std::uint8_t timer);
  void fail(QueuePair& qp, ibv_wc_status status);
  void check_timeout(QueuePair& qp, ipoib::TimePoint now, ConnectedSink& sink);

  Hca& hca_;
  ConnectionSchedule schedule_;
  std::size_t need_responses_ = 0;  ///< connections
  std::array<RequestPacket, kSendBatch> plan_;
  std::vector<OutgoingPacket> batch_ = std::vector<OutgoingPacket>(kSendBatch);
  PacketCopies copies_;  ///< for the batch
};

}  // namespace softib::hca
