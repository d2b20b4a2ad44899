// What each segment of a large packet has in front of its payload, but for checksums: for who cuts
// it in software, and for an HCA that does (IBV_WR_TSO).
//
// Segment n of a packet has the headers of the packet, but for
//   IPv4   total length, identification + n (RFC 6864 wants them to differ unless the packet is
//          atomic)
//   IPv6   payload length
//   TCP    sequence number + n * size; CWR on the first alone (RFC 3168, 6.1.2), FIN and PSH on the
//          last alone
//   UDP    length
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/segmentation.hpp"

namespace ipoib::wire {

/// Octets of the header of TCP or UDP at the front; 0: it is not there as a whole.
[[nodiscard]] std::size_t transport_header_size(ConstBytes transport, Segmentation::Kind kind);

/// How a packet of these headers, with that of IP at `ip`, is cut after each `size` octets of its
/// payload, whatever lengths they tell. Nothing unless they are a header of IP, no fragment's, and
/// right behind it one of TCP or UDP, and nothing else.
[[nodiscard]] std::optional<Segmentation> plan_headers(ConstBytes headers, std::size_t ip,
                                                       std::uint16_t size);

class SegmentHeaders {
 public:
  /// `headers`, from the front of the packet with that of IP at `ip`, outlive it. They are what
  /// `plan` says, and `payload` octets follow.
  SegmentHeaders(ConstBytes headers, std::size_t ip, const Segmentation& plan, std::size_t payload);

  [[nodiscard]] bool done() const { return begin_ == payload_; }
  [[nodiscard]] bool is_ipv4() const { return is_ipv4_; }
  [[nodiscard]] std::size_t size() const { return headers_.size(); }
  /// Writes the headers of the next segment to `to`, which has room for size() octets, and returns
  /// how many octets of the payload are behind them.
  std::size_t next(std::uint8_t* to);

 private:
  void emit_ip(std::uint8_t* header, std::size_t payload) const;
  void emit_tcp(std::uint8_t* header, std::size_t payload) const;

  ConstBytes headers_;
  Segmentation plan_;
  std::uint16_t ip_;
  std::uint16_t number_ = 0;
  bool is_ipv4_;
  std::uint32_t payload_;
  std::uint32_t begin_ = 0;  ///< of the next segment, in the payload
};

}  // namespace ipoib::wire
