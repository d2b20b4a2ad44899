// The RMPP transfers of the SA: responses to SubnAdmGetTable. Segments that are not acknowledged in
// time are retransmitted up to kMaxRetries times; a STOP or ABORT ends a transfer.
#pragma once

#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/rmpp_sender.hpp"

namespace softib::subnet {

class SaTransfers {
 public:
  /// Transfers of all ports together; each port has a fair share (ipoib/fair_share.hpp), of the
  /// bytes too.
  static constexpr std::size_t kMaxTransfers = 64;
  static constexpr std::size_t kMaxBytes = 32U << 20;
  static constexpr ipoib::Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr unsigned kMaxRetries = 4;

  /// Starts to send `data` (records without header) to `requester`, as a response with the given
  /// `address` and `header`. If a response to the same request is being sent already, that transfer
  /// continues instead. Returns false if a limit is reached.
  bool start(NodeIndex requester, const MadPacket& address, const ipoib::wire::SaHeader& header,
             ConstBytes data, ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// Handles an ACK, STOP or ABORT. Returns false if it belongs to no transfer.
  bool receive(const MadPacket& packet, const ipoib::wire::SaHeader& header, ipoib::TimePoint now,
               std::vector<MadPacket>& out);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  void clear() { transfers_.clear(); }

  [[nodiscard]] std::uint64_t resent() const { return resent_; }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Transfer {
    NodeIndex requester = 0;
    MadPacket address;
    std::uint64_t transaction_id = 0;
    RmppSender sender;
    unsigned retries = 0;
    ipoib::TimePoint deadline{};
  };
  using Transfers = std::vector<Transfer>;

  [[nodiscard]] Transfers::iterator find(const MadPacket& peer, std::uint64_t transaction_id);
  static void send(Transfer& transfer, ipoib::TimePoint now, std::vector<MadPacket>& out);
  Transfers::iterator give_up(Transfers::iterator transfer);

  Transfers transfers_;
  std::uint64_t resent_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace softib::subnet
