// Cuts a large packet into segments, for a sender without large-send offload and for the emulated
// HCA, which has it. Each segment is a new header and a view of the packet's payload, which is not
// copied; what the segments have in common is summed up once for the checksums.
//
// Segment n has the headers of the packet, but for checksums and
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
#include "wire/checksum.hpp"

namespace ipoib::wire {

/// Octets of the header of TCP or UDP at the front; 0: it is not there as a whole.
[[nodiscard]] std::size_t transport_header_size(ConstBytes transport, Segmentation::Kind kind);

/// How a packet with a header of IP at `ip`, no fragment's, and right behind it one of TCP or UDP
/// is cut after each `size` octets of its payload, whatever lengths these tell. Nothing: it does
/// not begin like that.
[[nodiscard]] std::optional<Segmentation> plan_headers(ConstBytes packet, std::size_t ip,
                                                       std::uint16_t size);

class Segmenter {
 public:
  /// `headers`, from the front of the packet with that of IP at `ip`, and the payload outlive it.
  /// They are what `plan` says.
  Segmenter(ConstBytes headers, std::size_t ip, const Segmentation& plan, ConstBytes payload);
  /// Has next() compute checksums, too. `pseudo_header` is its sum, without the length.
  void sum_up(InternetChecksum pseudo_header);

  [[nodiscard]] bool sums_up() const { return sums_up_; }
  [[nodiscard]] bool done() const { return begin_ == payload_.size(); }
  /// Octets of the headers, everything before the IP header among them.
  [[nodiscard]] std::size_t header_size() const { return headers_.size(); }
  /// Writes the headers of the next segment to `to`, which has room for header_size() octets, and
  /// returns its payload.
  ConstBytes next(std::uint8_t* to);
  /// The payload of the segments that are left.
  [[nodiscard]] ConstBytes left() const { return payload_.subspan(begin_); }

 private:
  void emit_ip(std::uint8_t* header, std::size_t payload) const;
  void emit_tcp(std::uint8_t* header, std::size_t payload) const;
  void sum_up_ip(std::uint8_t* header) const;
  void sum_up_transport(std::uint8_t* header, ConstBytes payload) const;

  ConstBytes headers_;
  ConstBytes payload_;
  Segmentation plan_;
  std::uint16_t ip_;
  std::uint16_t number_ = 0;  ///< of the next segment
  bool is_ipv4_;
  bool sums_up_ = false;
  std::size_t begin_ = 0;              ///< of the next segment, in the payload
  InternetChecksum common_ip_;         ///< IPv4 header without what differs
  InternetChecksum common_transport_;  ///< pseudo-header and header without what differs
};

}  // namespace ipoib::wire
