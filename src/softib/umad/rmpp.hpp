// The receiver's half of one transfer of the reliable multi-packet protocol (IBA 13.6), as a value;
// softib/core/rmpp_sender.hpp has the other half, and the picture.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/core/rmpp_sender.hpp"
#include "softib/umad/mad_class.hpp"

namespace softib::umad {

using Mad = MadPacket::Bytes;

/// Segments that a receiver lets come between two acknowledgements, as the Linux kernel does.
inline constexpr std::uint32_t kRmppWindow = 64;
/// Segments of the longest message, about 6 MiB of SA data.
inline constexpr std::uint32_t kMaxRmppSegments = 32768;

/// Takes segments in their order. One out of order is dropped: it is sent again.
class RmppReceiver {
 public:
  enum class Outcome : std::uint8_t { nothing, acknowledge, complete, abort };

  /// For a DATA MAD of this transfer. `complete` comes once, and calls for an ACK as well.
  Outcome accept(const Mad& segment);
  /// The ACK for what has come, made from any segment of the transfer.
  [[nodiscard]] Mad acknowledgement(const Mad& segment) const;
  /// The whole message after `complete`: the first segment's headers, and the data of all.
  [[nodiscard]] std::vector<std::uint8_t> take_message() { return std::move(message_); }
  [[nodiscard]] bool is_complete() const { return complete_; }

 private:
  void append(const Mad& segment, const ipoib::wire::RmppHeader& rmpp);

  std::vector<std::uint8_t> message_;
  std::uint32_t received_ = 0;  ///< segments 1..received_ are in the message
  std::uint32_t window_last_ = 1;
  bool complete_ = false;
};

/// The ABORT that answers a MAD of a transfer.
[[nodiscard]] Mad rmpp_abort(const Mad& segment, RmppStatus status);

}  // namespace softib::umad
