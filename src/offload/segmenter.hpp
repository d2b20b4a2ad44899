// Cuts a large packet into segments (as an HCA with large-send offload does). Functions on bytes:
// each segment is a new header and a view of the packet's payload, which is not copied.
// What the segments have in common is summed up once for the checksums.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"
#include "wire/checksum.hpp"
#include "wire/segment_headers.hpp"

namespace ipoib::offload {

/// Of the headers of a packet that is cut; one with more extension headers is not taken.
inline constexpr std::size_t kMaxHeaders = 252;

/// `packet` begins with its IP header. Nothing unless the headers are what `kind` says, begin and
/// end where they can, and there are at most kMaxSegments segments of `size` octets.
[[nodiscard]] std::optional<Segmentation> plan_segments(ConstBytes packet, Segmentation::Kind kind,
                                                        std::size_t transport, std::size_t size);

/// Completes a checksum that whoever wrote the packet has left partial: from `start` to the end,
/// into the field `offset` octets behind `start`. False when these are not in the packet.
[[nodiscard]] bool complete_checksum(MutableBytes packet, std::size_t start, std::size_t offset);

/// TCP or UDP is right behind a plain IP header, where devices look for it; `ip` is where that is.
[[nodiscard]] bool is_plain(const Frame& large, std::size_t ip);

class Segmenter {
 public:
  /// `frame` outlives it and stays as it is: a large packet, its IP header at `ip` from the front,
  /// its checksum partial: the sum of the pseudo-header. With `device_sums` the checksums of the
  /// segments are left to the device where that can find them (is_plain()).
  Segmenter(const Frame& frame, std::size_t ip, bool device_sums = false);

  [[nodiscard]] bool done() const { return headers_.done(); }
  /// The segments have no checksums.
  [[nodiscard]] bool leaves_sums() const { return leaves_sums_; }
  /// Octets of the headers, everything before the IP header among them.
  [[nodiscard]] std::size_t header_size() const { return headers_.size(); }
  /// Writes the headers of the next segment to `header`, which has room for header_size() octets,
  /// and returns its payload.
  ConstBytes next(std::uint8_t* header);

 private:
  void sum_up_ip(std::uint8_t* header) const;
  void sum_up_transport(std::uint8_t* header, ConstBytes payload) const;

  Segmentation plan_;
  std::size_t ip_;
  wire::SegmentHeaders headers_;
  bool leaves_sums_;
  ConstBytes payload_;                       ///< of the segments that are left
  wire::InternetChecksum common_ip_;         ///< IPv4 header without what differs
  wire::InternetChecksum common_transport_;  ///< pseudo-header and header without what differs
};

}  // namespace ipoib::offload
