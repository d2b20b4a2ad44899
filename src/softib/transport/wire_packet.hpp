// A copy of a packet that waits: on a link with faults, or on a cable that delays it.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/core/fabric_types.hpp"
#include "softib/core/packet_sink.hpp"

namespace softib::transport {

/// A packet as on the wire, LRH to padding.
struct WirePacket {
  enum class Kind : std::uint8_t { datagram, mad, mad_to_node };
  Kind kind = Kind::datagram;
  std::vector<std::uint8_t> bytes;
  /// The packet with its ICRC, which the link carries instead if it has bit errors.
  std::vector<std::uint8_t> with_icrc{};
  Lid dlid;                             ///< of a datagram
  Qpn destination;                      ///< of a datagram
  bool checksums_valid = false;         ///< of a datagram
  Purpose purpose = Purpose::datagram;  ///< of a datagram
  NodeIndex node = 0;                   ///< the destination of mad_to_node
  std::uint8_t port = 1;                ///< of the HCA, by which it leaves
  /// It has passed the switches, and a datagram is at the port of `node`.
  bool has_passed_switches = false;
};

}  // namespace softib::transport
