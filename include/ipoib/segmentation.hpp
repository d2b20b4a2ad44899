// Where the headers of an IP packet lie, and how a packet larger than the link's MTU is segmented.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipoib {

/// The header that follows the IP header of a packet, without extension headers.
struct UpperLayer {
  std::uint8_t protocol = 0;
  std::uint8_t begin = 0;  ///< its offset from the IP header; 0: a fragment, or not parsed
};

/// How a large packet is segmented: each segment gets the headers and `size` bytes of the payload,
/// the last one the rest. Offsets are from the front of the packet.
struct Segmentation {
  enum class Kind : std::uint8_t { none, tcp, udp };
  Kind kind = Kind::none;
  std::uint16_t transport = 0;  ///< offset of the TCP or UDP header
  std::uint16_t payload = 0;    ///< offset of the payload
  std::uint16_t size = 0;       ///< payload bytes of one segment

  /// The number of segments of a packet of `bytes` bytes, headers included.
  [[nodiscard]] std::size_t count(std::size_t bytes) const {
    return (bytes - payload + size - 1) / size;
  }
  friend bool operator==(const Segmentation&, const Segmentation&) = default;
};
/// The maximum number of segments of one packet: what every Linux accepts for UDP
/// (UDP_MAX_SEGMENTS).
inline constexpr std::size_t kMaxSegments = 64;

}  // namespace ipoib
