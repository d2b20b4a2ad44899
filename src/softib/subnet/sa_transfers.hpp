// The long answers of the SA that are under way: tables of records, each sent by RMPP. What is not
// acknowledged in time is sent again, a few times; a STOP or ABORT ends a transfer.
#pragma once

#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/rmpp_sender.hpp"

namespace softib::subnet {

class SaTransfers {
 public:
  static constexpr std::size_t kMaxTransfers = 64;
  static constexpr std::size_t kMaxBytes = 32U << 20;  ///< of all transfers together
  static constexpr ipoib::Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr unsigned kMaxRetries = 4;

  /// Starts to send `data` (records, without header) as the answer that `address` and `header`
  /// begin. False when a bound is reached. An answer to the same question that is under way
  /// already goes on instead.
  bool start(const MadPacket& address, const ipoib::wire::SaHeader& header, ConstBytes data,
             ipoib::TimePoint now, std::vector<MadPacket>& out);
  /// ACK, STOP or ABORT. False when it belongs to no transfer.
  bool receive(const MadPacket& packet, const ipoib::wire::SaHeader& header, ipoib::TimePoint now,
               std::vector<MadPacket>& out);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now, std::vector<MadPacket>& out);
  void clear() { transfers_.clear(); }

  [[nodiscard]] std::uint64_t resent() const { return resent_; }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Transfer {
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
