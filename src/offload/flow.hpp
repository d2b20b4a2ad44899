// Decides whether a packet continues another one of its flow, so that both can be coalesced without
// loss of information.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"

namespace ipoib::offload {

/// An IP packet of TCP or UDP with readable ports: no fragment, and without extension headers.
struct FlowPacket {
  ConstBytes bytes;
  Segmentation::Kind kind = Segmentation::Kind::none;
  std::uint8_t transport = 0;  ///< offset of the TCP or UDP header
  std::uint8_t payload = 0;    ///< offset of the payload
  std::uint32_t tag = 0;       ///< the same for all packets of a flow

  [[nodiscard]] std::size_t payload_size() const { return bytes.size() - payload; }
};

/// Parses the TCP or UDP header of `packet`, an IP packet with the upper-layer header `upper`.
/// Returns nullopt if the packet is malformed or its flow cannot be determined.
[[nodiscard]] std::optional<FlowPacket> parse_flow(ConstBytes packet, UpperLayer upper);
[[nodiscard]] bool is_same_flow(const FlowPacket& one, const FlowPacket& other);
/// Whether a packet can be coalesced with others: it has data, no IPv4 options, no TCP flags other
/// than ACK, ECE, PSH and FIN, a checksum, is not DHCP, and its checksums are valid. With
/// `checksums_valid` they are not verified again.
[[nodiscard]] bool can_coalesce(const FlowPacket& packet, bool checksums_valid = false);
/// Whether the headers of `next`, of the same flow, are those of the `count`-th segment after
/// `first` if each segment before it has `size` bytes of payload. Requires that can_coalesce() is
/// true for both.
[[nodiscard]] bool continues(const FlowPacket& first, const FlowPacket& next, std::size_t count,
                             std::size_t size);
/// Whether nothing can follow the packet: PSH and FIN belong to the last segment.
[[nodiscard]] bool is_last(const FlowPacket& packet);

}  // namespace ipoib::offload
