// What decides whether a packet continues another one, so that both together say the same as apart.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"

namespace ipoib::offload {

/// An IP packet of TCP or UDP whose ports can be read: no fragment, no extension header.
struct FlowPacket {
  ConstBytes bytes;
  Segmentation::Kind kind = Segmentation::Kind::none;
  std::uint8_t transport = 0;  ///< where the header of TCP or UDP begins
  std::uint8_t payload = 0;    ///< where it ends
  std::uint32_t tag = 0;       ///< packets of one flow have the same

  [[nodiscard]] std::size_t payload_size() const { return bytes.size() - payload; }
};

/// Parses the TCP or UDP header of `packet`, an IP packet with the upper-layer header `upper`.
/// Returns nullopt if the packet is malformed or its flow cannot be determined.
[[nodiscard]] std::optional<FlowPacket> parse_flow(ConstBytes packet, UpperLayer upper);
[[nodiscard]] bool is_same_flow(const FlowPacket& one, const FlowPacket& other);
/// It may be one of several segments: data with nothing that is to be told apart (no IPv4 options;
/// of the flags of TCP only ACK, ECE, PSH and FIN; a checksum at all; not DHCP), and its checksums
/// are right:
/// whoever takes several together vouches for them. `checksums_valid`: they are known to be.
[[nodiscard]] bool can_coalesce(const FlowPacket& packet, bool checksums_valid = false);
/// `next`, of the same flow, says the same in its headers as the `count`-th segment after `first`
/// does when each before it has `size` octets of payload. Both may be segments.
[[nodiscard]] bool continues(const FlowPacket& first, const FlowPacket& next, std::size_t count,
                             std::size_t size);
/// Nothing may follow it: PSH or FIN belong to the last segment.
[[nodiscard]] bool is_last(const FlowPacket& packet);

}  // namespace ipoib::offload
