// The responder of a connection: checks a request of the peer, executes it on the memory of the
// program, and sends the response (IBA 9.7.4, 9.7.5).
//
// A request that may not be executed is refused by a NAK, and moves the queue pair to ERR. If it
// was about to complete a receive, this one completes with an error, otherwise the program gets an
// asynchronous event. A request that only finds no receive is refused for a while (RNR NAK).
//
// The responder of an unreliable connection sends nothing. It drops the message to which such a
// packet belongs; the receive stays posted for the next message (IBA 9.8.2, 9.8.3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>

#include "softib/hca/connection/attributes.hpp"
#include "softib/hca/connection/receive_window.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/memory_objects.hpp"
#include "softib/hca/outbox.hpp"

namespace softib::hca {

class QueuePair;
class RegisteredMemory;

class Responder {
 public:
  using ConnectedPacket = ipoib::wire::ConnectedPacket;
  using Psn = ipoib::wire::Psn;

  /// All must outlive the responder.
  Responder(QueuePair& qp, ipoib::wire::ConnectedService service,
            const ConnectionAttributes& attributes, const Dependencies& hca);

  /// Handles a packet, or a run of packets, of a request of the peer.
  void handle_request(const ConnectedPacket& packet);
  /// Appends the responses to send next. Requires that `to` is empty.
  void build(Outbox& to);
  /// To call when these packets, the first of the last build(), have been sent.
  void sent(std::span<const OutgoingPacket> packets);

  /// Sets the PSN that is expected next. Requires that no response is owed.
  void start(Psn first) { window_.start(first); }
  void forget_responses() { window_.forget_responses(); }
  [[nodiscard]] Psn expected() const { return window_.expected(); }
  [[nodiscard]] bool owes() const { return window_.owes(); }

 private:
  using Nak = std::optional<std::uint8_t>;  ///< its code

  [[nodiscard]] bool is_reliable() const {
    return service_ != ipoib::wire::ConnectedService::unreliable;
  }
  // Check.
  void handle_reliable(const ConnectedPacket& packet);
  void handle_unreliable(const ConnectedPacket& packet);
  void repeat(const ConnectedPacket& packet);
  [[nodiscard]] Nak select_shared(const ConnectedPacket& packet);
  [[nodiscard]] bool has_receive(const ConnectedPacket& packet);
  [[nodiscard]] bool may_respond() const;
  [[nodiscard]] bool may_read(const ConnectedPacket& packet) const;
  [[nodiscard]] KeyUser remote_user(std::uint32_t shared_queue) const;

  // Execute.
  void execute_send(const ConnectedPacket& packet);
  void execute_write(const ConnectedPacket& packet);
  void execute_read(const ConnectedPacket& packet);
  void execute_atomic(const ConnectedPacket& packet);
  void execute_atomic_write(const ConnectedPacket& packet);
  [[nodiscard]] bool invalidate(const ConnectedPacket& packet);
  void complete_receive(const ConnectedPacket& packet, ibv_wc_status status);

  // Reply.
  void refuse(const ConnectedPacket& packet, std::uint8_t nak);
  void drop_message(const ConnectedPacket& packet);
  [[nodiscard]] Nak build_packet(const Response& response, std::uint32_t index, Outbox& to);

  QueuePair& qp_;
  const ipoib::wire::ConnectedService service_;
  const ConnectionAttributes& attributes_;
  const Dependencies& hca_;
  ReceiveWindow window_;
};

}  // namespace softib::hca
