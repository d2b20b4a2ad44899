// The requester of a connection (IBA 9.7.2 to 9.7.6): makes packets of the posted requests, and
// completes these when the peer acknowledges or answers them. NAKs and time-outs make it send
// again, or fail.
//
// The payload of a packet is read from the memory of the program each time that it is sent.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "softib/hca/connection/attributes.hpp"
#include "softib/hca/connection/request.hpp"
#include "softib/hca/connection/send_window.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/outbox.hpp"
#include "wire/connected_packet.hpp"

namespace softib::hca {

class QueuePair;

class Requester {
 public:
  using ConnectedPacket = ipoib::wire::ConnectedPacket;

  /// All must outlive the requester.
  Requester(QueuePair& qp, ipoib::wire::ConnectedService service,
            const ConnectionAttributes& attributes, const Dependencies& hca);

  /// Whether a work request with `length` bytes may be posted.
  [[nodiscard]] bool is_valid(const ibv_send_wr& wr, std::uint64_t length) const;
  /// Stores a work request at `position` of the send queue. Requires is_valid().
  void store(const ibv_send_wr& wr, std::uint32_t position);

  /// Executes the local operations that come next, and appends the packets to send next. Requires
  /// that `to` is empty.
  void build(Outbox& to);
  /// To call when the first `count` packets of the last build() have been sent.
  void sent(std::size_t count);

  // From the peer.
  void handle_acknowledge(const ConnectedPacket& packet);
  void handle_response(const ConnectedPacket& packet);

  /// A switch has marked packets of the connection; fewer are in flight for some time.
  void congested() { window_.congested(attributes_.mtu()); }

  /// Sends again if an acknowledgement should have come by now. That of a peer that has not taken
  /// our packets yet may come later.
  void check_timeout(ipoib::TimePoint now, ConnectedSink& sink);
  /// Completes the oldest request with an error, if one has been started, and moves the queue pair
  /// to the error state.
  void abandon(ibv_wc_status status);
  /// Whether the requester sends nothing now because the peer was not ready.
  [[nodiscard]] bool is_paused(ipoib::TimePoint now) { return window_.is_paused(now); }
  /// When is_paused() changes, or check_timeout() has something to do.
  [[nodiscard]] ipoib::TimePoint update_deadline(ipoib::TimePoint now) {
    return window_.update_deadline(now, attributes_.ack_timeout());
  }

  /// Sets the PSN of the next request. Requires that none is waiting in the send queue.
  void start(Psn first) { window_.start(first); }
  [[nodiscard]] Psn next_psn() const { return window_.next(); }
  [[nodiscard]] bool has_unsent() const { return window_.has_unsent(); }
  [[nodiscard]] bool has_started() const { return window_.has_started(); }
  /// Whether all packets of a run of responses come as expected.
  [[nodiscard]] bool expects_responses(const ConnectedPacket& run) const {
    return run.bth.psn == window_.unacked() &&
           window_.is_outstanding(run.bth.psn + (run.packets - 1));
  }

 private:
  [[nodiscard]] bool is_reliable() const {
    return service_ != ipoib::wire::ConnectedService::unreliable;
  }
  [[nodiscard]] ibv_wc_status build_packet(const RequestPacket& planned, Outbox& to);
  void execute_local();
  [[nodiscard]] bool execute_local(const ConnectedRequest& request);
  void handle_nak(const ipoib::wire::Aeth& nak);
  [[nodiscard]] bool acknowledge(Psn psn);
  void complete_oldest();
  void recover();
  void retry();
  void retry_when_ready(std::uint8_t timer);
  void fail(ibv_wc_status status);

  QueuePair& qp_;
  const ipoib::wire::ConnectedService service_;
  const ConnectionAttributes& attributes_;
  const Dependencies& hca_;
  SendWindow window_;
  std::array<RequestPacket, kSendBatch> plan_;  ///< of the last build()
};

}  // namespace softib::hca
