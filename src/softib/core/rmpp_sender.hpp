// Sends long answers: the sender's half of the reliable multi-packet protocol (IBA 13.6).
//
// An answer is cut into segments of 200 octets of SA data, each behind a copy of the SA header. The
// first goes out alone; from then on the receiver's ACKs say how far the window reaches. What is
// not acknowledged in time is sent again, a few times. A STOP or ABORT ends the transfer.
#pragma once

#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/subnet_view.hpp"
#include "wire/mad.hpp"

namespace softib {

class RmppSender {
 public:
  static constexpr std::size_t kMaxTransfers = 64;
  static constexpr std::size_t kMaxOctets = 32U << 20;  ///< of all transfers together
  /// The furthest that an ACK may open the window; a receiver that wants more is aborted.
  static constexpr std::uint32_t kMaxWindow = 4096;
  static constexpr ipoib::Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr unsigned kMaxRetries = 4;

  /// Starts to send `data` (records, without header) as the answer that `address` and `header`
  /// begin. False when a bound is reached. An answer to the same question that is under way
  /// already goes on instead.
  bool start(const MadPacket& address, const ipoib::wire::SaHeader& header,
             std::vector<std::uint8_t> data, ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// ACK, STOP or ABORT. False when it belongs to no transfer.
  bool receive(const MadPacket& packet, const ipoib::wire::SaHeader& header, ipoib::TimePoint now,
               std::vector<MadPacket>& out);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  void clear() { transfers_.clear(); }

  [[nodiscard]] std::size_t size() const { return transfers_.size(); }
  [[nodiscard]] std::uint64_t resent() const { return resent_; }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Transfer {
    MadPacket address;
    ipoib::wire::SaHeader header;
    std::vector<std::uint8_t> data;
    std::uint32_t segments = 0;
    std::uint32_t acknowledged = 0;  ///< segments 1..acknowledged have arrived
    std::uint32_t sent = 0;          ///< the furthest that was sent
    std::uint32_t window_last = 1;
    unsigned retries = 0;
    ipoib::TimePoint deadline;
  };
  using Transfers = std::vector<Transfer>;

  [[nodiscard]] Transfers::iterator find(const MadPacket& peer, std::uint64_t transaction_id);
  static void send_window(Transfer& transfer, ipoib::TimePoint now, std::vector<MadPacket>& out);
  static MadPacket segment(const Transfer& transfer, std::uint32_t number);
  static MadPacket abort(const Transfer& transfer, std::uint8_t status);

  Transfers transfers_;
  std::uint64_t resent_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace softib
