// The receive window of a connection: the packet of the peer's requests that is expected next, the
// message that it belongs to, and the responses that are owed (IBA 9.7.4, 9.7.5, 9.8.2). An
// unreliable connection owes none.
//
// Responses leave in the order of their requests: an acknowledgement that overtook the response of
// a READ would tell the requester that this was lost.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <span>

#include "softib/hca/connection/response.hpp"
#include "softib/hca/limits.hpp"

namespace softib::hca {

class ReceiveWindow {
 public:
  using Psn = ipoib::wire::Psn;
  using Aeth = ipoib::wire::Aeth;
  using ConnectedPacket = ipoib::wire::ConnectedPacket;
  /// The message of which further packets are expected.
  enum class Message : std::uint8_t { none, send, write };
  /// Bound of `responses`, beyond the READs that the peer may have outstanding.
  static constexpr std::size_t kMaxResponses = std::size_t{4} * kMaxReads;

  explicit ReceiveWindow(ipoib::wire::ConnectedService service)
      : is_reliable_(service != ipoib::wire::ConnectedService::unreliable) {}

  /// Expects this PSN. Requires that no response is owed.
  void start(Psn first);
  [[nodiscard]] Psn expected() const { return expected_; }
  [[nodiscard]] Message message() const { return message_; }
  /// Bytes of the message that have been received.
  [[nodiscard]] std::uint64_t received() const { return received_; }
  /// The destination of the RDMA WRITE to which the packet belongs.
  [[nodiscard]] const ipoib::wire::Reth& destination(const ConnectedPacket& packet) const {
    return message_ == Message::none ? packet.reth : write_;
  }
  /// Whether the packet may come next: its opcode, and its size with this path MTU (IBA 9.7.4.1.3,
  /// 9.7.4.1.4).
  [[nodiscard]] bool may_follow(const ConnectedPacket& packet, std::uint32_t mtu) const;

  /// The expected packet, of a SEND or an RDMA WRITE, has been executed. Owes an acknowledgement if
  /// it requests one.
  void accept(const ConnectedPacket& packet);
  // Unreliable connections
  /// A packet with this PSN has come. Those before it, from the expected one on, are lost.
  void expect(Psn psn) { expected_ = psn; }
  /// The message in progress, if any, will not be completed.
  void drop_message() { message_ = Message::none; }
  /// The expected packet, and the rest of its message, are not executed.
  void drop(const ConnectedPacket& packet);
  /// Whether a message began to be dropped, and its end has not been seen.
  [[nodiscard]] bool is_dropping() const { return is_dropping_; }

  // Reliable connections
  /// The expected packet is a READ: owes its response.
  void accept_read(const ConnectedPacket& packet, std::uint32_t mtu);
  /// The expected packet, an atomic operation, has found `original`: owes its response.
  void accept_atomic(const ConnectedPacket& packet, std::uint64_t original);
  /// The expected packet, an atomic write, has been executed: owes its response.
  void accept_atomic_write(const ConnectedPacket& packet);
  /// Owes the response of a READ that was executed before.
  void repeat_read(const ConnectedPacket& packet, std::uint32_t mtu);
  /// Owes again the response of an atomic operation, which is not executed again. Only the last
  /// kMaxReads are known, which are all that a requester may have outstanding.
  void repeat_atomic(const ConnectedPacket& packet);
  /// Owes again the response of an atomic write.
  void repeat_atomic_write(const ConnectedPacket& packet);
  /// Owes an acknowledgement of all packets before the expected one.
  void owe_ack();
  /// Owes a NAK of the expected packet, which has come and cannot be executed.
  void reject(Aeth::Kind kind, std::uint8_t value);
  /// A later packet than the expected one has come. Owes a NAK, unless the expected one has been
  /// rejected since the last one was accepted.
  void reject_early();

  [[nodiscard]] bool owes() const { return !responses_.empty(); }
  [[nodiscard]] bool is_full() const { return responses_.size() >= kMaxResponses; }
  /// The number of READs and atomic operations whose first response has not been sent completely.
  [[nodiscard]] std::size_t pending_reads() const { return pending_reads_; }
  [[nodiscard]] const std::deque<Response>& responses() const { return responses_; }
  /// The next packets, all of the response at the front, have been sent. Requires owes().
  void sent(std::uint32_t packets);
  /// Owes a NAK instead of all responses, the first of which can no longer be read. Requires
  /// owes().
  void replace_responses(std::uint8_t nak);
  /// The response at the front is no longer owed. Requires that it is a repeated one.
  void drop_repeated() {
    assert(owes() && responses_.front().is_repeated);
    responses_.pop_front();
  }
  void forget_responses();

 private:
  void advance(std::uint32_t packets);
  void add(const Response& response);

  bool is_reliable_;
  Psn expected_;
  std::uint32_t msn_ = 0;
  Message message_ = Message::none;
  std::uint64_t received_ = 0;
  ipoib::wire::Reth write_;  ///< of the RDMA WRITE in progress
  bool is_dropping_ = false;
  bool has_rejected_ = false;
  std::deque<Response> responses_;
  std::size_t pending_reads_ = 0;
  struct AtomicResult {
    Psn psn;
    std::uint64_t original;
  };
  std::deque<AtomicResult> atomic_results_;  ///< the last ones, the oldest first
};

}  // namespace softib::hca
