// What is to be done to a packet that is larger than its link carries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipoib {

/// How a packet that is larger than its link carries is cut into segments: each gets the headers,
/// and `size` octets of the payload, the last one what is left. Offsets are from the front.
struct Segmentation {
  enum class Kind : std::uint8_t { none, tcp, udp };
  Kind kind = Kind::none;
  std::uint16_t transport = 0;  ///< where the header of TCP or UDP begins
  std::uint16_t payload = 0;    ///< where the headers end
  std::uint16_t size = 0;

  /// How many segments a packet of `octets` in all makes.
  [[nodiscard]] std::size_t count(std::size_t octets) const {
    return (octets - payload + size - 1) / size;
  }
  friend bool operator==(const Segmentation&, const Segmentation&) = default;
};
/// Of one packet, at most: what each Linux takes of UDP (UDP_MAX_SEGMENTS).
inline constexpr std::size_t kMaxSegments = 64;

}  // namespace ipoib
