// The receiver of one transfer of the reliable multi-packet protocol (IBA 13.6), as a value. For
// the sender and a diagram see softib/core/rmpp_sender.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/core/rmpp_sender.hpp"
#include "softib/umad/mad_class.hpp"

namespace softib::umad {

using Mad = MadPacket::Bytes;

/// Segments between two ACKs; the value of the Linux kernel.
inline constexpr std::uint32_t kRmppWindow = 64;
/// Segments of the longest message, which has about 6 MiB of SA data.
inline constexpr std::uint32_t kMaxRmppSegments = 32768;

/// The receiver. It accepts segments in order, and drops one out of order, which its sender
/// repeats.
class RmppReceiver {
 public:
  enum class Outcome : std::uint8_t { nothing, acknowledge, complete, abort };

  explicit RmppReceiver(std::uint32_t max_segments = kMaxRmppSegments)
      : max_segments_(max_segments) {}

  /// Processes a DATA MAD of this transfer. Returns `complete` once; it requires an ACK, too.
  Outcome accept(const Mad& segment);
  /// The ACK for all segments so far, with the addresses and ids of any segment of the transfer.
  [[nodiscard]] Mad acknowledgement(const Mad& segment) const;
  /// The message after `complete`: the headers of the first segment and the data of all.
  [[nodiscard]] std::vector<std::uint8_t> take_message() { return std::move(message_); }
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// The number of segments accepted so far.
  [[nodiscard]] std::uint32_t received() const { return received_; }

 private:
  void append(const Mad& segment, const ipoib::wire::RmppHeader& rmpp);

  std::uint32_t max_segments_;
  std::vector<std::uint8_t> message_;
  std::uint32_t received_ = 0;  ///< segments 1..received_ are in the message
  std::uint32_t window_last_ = 1;
  bool complete_ = false;
};

/// The ABORT in reply to a MAD of a transfer.
[[nodiscard]] Mad rmpp_abort(const Mad& segment, RmppStatus status);

}  // namespace softib::umad
