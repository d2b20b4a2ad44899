// Segmentation of large packets (GSO), for the daemon where the device has no TSO, and for the
// emulated HCA, which has it. Each segment is a new header and a view of the packet's payload,
// which is not copied; the part of the checksums that all segments share is computed once.
//
// Segment n has the headers of the packet, except for checksums and
//   IPv4   total length, identification + n (RFC 6864 requires them to differ unless the packet is
//          atomic)
//   IPv6   payload length
//   TCP    sequence number + n * size; CWR in the first only (RFC 3168, 6.1.2), FIN and PSH in the
//          last only
//   UDP    length
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"
#include "wire/checksum.hpp"

namespace ipoib::offload {

/// The maximum size of the headers of a large packet; one with more extension headers is refused.
inline constexpr std::size_t kMaxHeaders = 252;

/// Plans the segmentation of `packet`, which begins with its IP header. Returns nullopt unless a
/// header of `kind` is at `transport`, and there are at most kMaxSegments segments of `size` bytes.
[[nodiscard]] std::optional<Segmentation> plan_segments(ConstBytes packet, Segmentation::Kind kind,
                                                        std::size_t transport, std::size_t size);

/// Plans the segmentation of a packet by its headers, ignoring their length fields: an IP header at
/// `ip`, not of a fragment, followed by one of TCP or UDP. Returns nullopt for any other packet.
[[nodiscard]] std::optional<Segmentation> plan_headers(ConstBytes packet, std::size_t ip,
                                                       std::uint16_t size);

/// Completes a partial checksum over the bytes from `start` to the end, in the field `offset` bytes
/// after `start`. Returns false if the field is not within the packet.
[[nodiscard]] bool complete_checksum(MutableBytes packet, std::size_t start, std::size_t offset);

/// Whether TCP or UDP follows an IP header (at `ip`) without options or extension headers: devices
/// expect it there.
[[nodiscard]] bool has_plain_headers(const Frame& large, std::size_t ip);

class Segmenter {
 public:
  /// `headers` is the front of the packet, with the IP header at `ip`. It matches `plan`; it and
  /// `payload` outlive the segmenter.
  Segmenter(ConstBytes headers, std::size_t ip, const Segmentation& plan, ConstBytes payload);
  /// Makes next() compute checksums. `pseudo_header` is the sum of the pseudo-header, without the
  /// length.
  void compute_checksums(wire::InternetChecksum pseudo_header);

  [[nodiscard]] bool computes_checksums() const { return computes_checksums_; }
  [[nodiscard]] bool done() const { return begin_ == payload_.size(); }
  /// Size of a segment's headers, including everything before the IP header.
  [[nodiscard]] std::size_t header_size() const { return headers_.size(); }
  /// Writes the headers of the next segment to `to`, which has room for header_size() bytes, and
  /// returns the segment's payload.
  ConstBytes next(std::uint8_t* to);
  /// The payload of the remaining segments.
  [[nodiscard]] ConstBytes remaining() const { return payload_.subspan(begin_); }

 private:
  void emit_ip(std::uint8_t* header, std::size_t payload) const;
  void emit_tcp(std::uint8_t* header, std::size_t payload) const;
  void emit_ip_checksum(std::uint8_t* header) const;
  void emit_transport_checksum(std::uint8_t* header, ConstBytes payload) const;

  ConstBytes headers_;
  ConstBytes payload_;
  Segmentation plan_;
  std::uint16_t ip_;
  std::uint16_t number_ = 0;  ///< of the next segment
  bool is_ipv4_;
  bool computes_checksums_ = false;
  std::size_t begin_ = 0;             ///< of the next segment, in the payload
  wire::InternetChecksum common_ip_;  ///< IPv4 header without the fields that differ
  wire::InternetChecksum
      common_transport_;  ///< pseudo-header and header without the fields that differ
};

/// A segmenter for `large`, which outlives it and has its IP header at `ip`, and a partial
/// checksum: the sum of the pseudo-header. With `checksum_offload` the device computes the
/// checksums of the segments, if the packet has plain headers.
[[nodiscard]] Segmenter make_segmenter(const Frame& large, std::size_t ip,
                                       bool checksum_offload = false);

}  // namespace ipoib::offload
