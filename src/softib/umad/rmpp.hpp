// One transfer of the reliable multi-packet protocol, from either end (IBA 13.6), as values: MADs
// in, MADs out, no clock.
//
//   sender                                  receiver
//     DATA 1, first, length  ------------->
//                            <-------------  ACK 1, window to 65
//     DATA 2 ... 65          ------------->
//                            <-------------  ACK 65, window to 129
//     ...  DATA n, last      ------------->
//                            <-------------  ACK n
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "softib/umad/mad_class.hpp"

namespace softib::umad {

using Mad = std::array<std::uint8_t, ipoib::wire::kMadSize>;

/// Segments that a receiver lets come between two acknowledgements, as the Linux kernel does.
inline constexpr std::uint32_t kRmppWindow = 64;
/// Segments of the longest message, about 6 MiB of SA data.
inline constexpr std::uint32_t kMaxRmppSegments = 32768;

/// IBA table 13-13, RMPPStatus of an ABORT.
enum class RmppStatus : std::uint8_t {
  total_time_too_long = 118,
  bad_first_segment = 119,  ///< inconsistent last and payload length
  bad_segment = 120,        ///< inconsistent first and segment number
  unsupported_version = 125,
  too_many_retries = 126,
  unspecified = 127,
};

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

/// Cuts a message into segments.
class RmppSender {
 public:
  /// `message` begins with the headers of its class, and has at least these.
  explicit RmppSender(std::vector<std::uint8_t> message);

  /// What may be sent now; empty when the window is used up.
  [[nodiscard]] std::vector<Mad> sendable();
  /// What is not acknowledged becomes sendable again.
  void rewind() { sent_ = acknowledged_; }
  /// From the first segment.
  void restart();
  /// False: it acknowledges what was never sent, or closes its window.
  bool acknowledge(std::uint32_t segment, std::uint32_t window_last);
  [[nodiscard]] bool is_done() const { return acknowledged_ == segments_; }

 private:
  [[nodiscard]] Mad segment(std::uint32_t number) const;

  std::vector<std::uint8_t> message_;
  std::size_t header_;  ///< octets that each segment repeats
  std::uint32_t segments_;
  std::uint32_t sent_ = 0;
  std::uint32_t acknowledged_ = 0;
  std::uint32_t window_last_ = 1;
};

}  // namespace softib::umad
