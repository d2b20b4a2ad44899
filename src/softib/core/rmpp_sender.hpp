// The sender's half of one transfer of the reliable multi-packet protocol (IBA 13.6), as a value:
// what the receiver says goes in, segments come out; no clock.
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

/// IBA table 13-13, RMPPStatus of an ABORT.
enum class RmppStatus : std::uint8_t {
  ok = 0,
  total_time_too_long = 118,
  bad_first_segment = 119,  ///< inconsistent last and payload length
  bad_segment = 120,        ///< inconsistent first and segment number
  unsupported_type = 121,
  window_too_small = 122,  ///< ends before the segment that it acknowledges
  segment_too_big = 123,   ///< acknowledges what was never sent
  unsupported_version = 125,
  too_many_retries = 126,
  unspecified = 127,
};

class RmppSender {
 public:
  using Mad = MadPacket::Bytes;
  enum class Outcome : std::uint8_t {
    nothing,   ///< an ACK that brings nothing new: they may overtake each other
    advances,  ///< more may be sent, or everything has arrived
    ended,     ///< STOP or ABORT
    nonsense,  ///< an ABORT is due, with `status`
  };
  struct Verdict {
    Outcome outcome = Outcome::nothing;
    RmppStatus status = RmppStatus::ok;
  };
  /// The furthest that an ACK may open the window.
  static constexpr std::uint32_t kMaxWindow = 4096;

  /// The first `header_size` octets of `message` are the headers of its class, with a header of
  /// RMPP among them: each segment repeats these.
  RmppSender(std::vector<std::uint8_t> message, std::size_t header_size);

  /// What may be sent now; empty when the window is used up.
  [[nodiscard]] std::vector<Mad> sendable();
  /// An ACK, STOP or ABORT.
  [[nodiscard]] Verdict receive(const ipoib::wire::RmppHeader& rmpp);
  /// What was sent and is not acknowledged becomes sendable again; returns how many segments.
  std::uint32_t rewind();
  /// From the first segment.
  void restart();
  [[nodiscard]] Mad abort(RmppStatus status) const;
  [[nodiscard]] bool is_done() const { return acknowledged_ == segments_; }
  [[nodiscard]] std::size_t octets() const { return message_.size(); }

 private:
  [[nodiscard]] Mad segment(std::uint32_t number) const;
  [[nodiscard]] Mad with_header(const ipoib::wire::RmppHeader& rmpp) const;

  std::vector<std::uint8_t> message_;
  std::size_t header_size_;
  std::uint32_t segments_;
  std::uint32_t sent_ = 0;          ///< segments 1..sent_ are on their way
  std::uint32_t furthest_ = 0;      ///< the furthest that was ever sent
  std::uint32_t acknowledged_ = 0;  ///< segments 1..acknowledged_ have arrived
  std::uint32_t window_last_ = 1;
};

}  // namespace softib
