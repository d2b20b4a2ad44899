// The sender side of one transfer of the reliable multi-packet protocol (IBA 13.6), as a value:
// ACKs go in, segments come out. The caller runs the timer.
//
//   sender                                  receiver
//     DATA 1, first, length  ------------->
//                            <-------------  ACK 1, window to 65
//     DATA 2 ... 65          ------------->
//                            <-------------  ACK 65, window to 129
//     ...  DATA n, last      ------------->
//                            <-------------  ACK n
#pragma once

#include <cstdint>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "wire/mad.hpp"

namespace softib {

/// RMPPStatus of an ABORT (IBA table 13-13).
enum class RmppStatus : std::uint8_t {
  ok = 0,
  total_time_too_long = 118,
  bad_first_segment = 119,  ///< inconsistent last and payload length
  bad_segment = 120,        ///< inconsistent first and segment number
  unsupported_type = 121,
  window_too_small = 122,  ///< ends before the segment that it acknowledges
  segment_too_big = 123,   ///< acknowledges a segment that was never sent
  unsupported_version = 125,
  too_many_retries = 126,
  unspecified = 127,
};

class RmppSender {
 public:
  using Mad = MadPacket::Bytes;
  enum class Outcome : std::uint8_t {
    ignored,   ///< an ACK without progress (duplicate or reordered)
    progress,  ///< more may be sent, or the transfer is complete
    ended,     ///< the receiver sent STOP or ABORT
    invalid,   ///< send an ABORT with `status`
  };
  struct ReceiveResult {
    Outcome outcome = Outcome::ignored;
    RmppStatus status = RmppStatus::ok;
  };
  /// Largest window that an ACK may grant, in segments.
  static constexpr std::uint32_t kMaxWindow = 4096;

  /// `message` starts with `header_size` bytes of headers: MAD, RMPP and class-specific. Each
  /// segment repeats them.
  RmppSender(std::vector<std::uint8_t> message, std::size_t header_size);

  /// Returns the segments that may be sent now and marks them sent; empty if the window is full.
  [[nodiscard]] std::vector<Mad> sendable();
  /// Handles an ACK, STOP or ABORT.
  [[nodiscard]] ReceiveResult receive(const ipoib::wire::RmppHeader& rmpp);
  /// Makes unacknowledged segments sendable again; returns how many.
  std::uint32_t rewind();
  /// Starts again from the first segment.
  void restart();
  [[nodiscard]] Mad abort(RmppStatus status) const;
  [[nodiscard]] bool is_done() const { return acknowledged_ == segments_; }
  [[nodiscard]] std::size_t size() const { return message_.size(); }

 private:
  [[nodiscard]] Mad segment(std::uint32_t number) const;
  [[nodiscard]] Mad with_header(const ipoib::wire::RmppHeader& rmpp) const;

  std::vector<std::uint8_t> message_;
  std::size_t header_size_;
  std::uint32_t segments_;
  std::uint32_t sent_ = 0;          ///< segments 1..sent_ have been sent
  std::uint32_t furthest_ = 0;      ///< highest segment ever sent
  std::uint32_t acknowledged_ = 0;  ///< segments 1..acknowledged_ are acknowledged
  std::uint32_t window_last_ = 1;
};

}  // namespace softib
