// Packets on their way out of an HCA, and where they go.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "softib/core/fabric_types.hpp"
#include "wire/packet.hpp"

namespace softib {

/// A packet as an HCA sends it: the headers it wrote, and the user's memory, gathered by the wire.
/// All of it is valid only during the call that hands it over. No CRCs: captures compute them.
struct OutgoingPacket {
  static constexpr std::size_t kMaxPieces =
      16;  ///< scatter elements of one work request, + padding

  std::array<std::uint8_t, ipoib::wire::UdPacket::kMaxHeaderSize> header;
  std::size_t header_size = 0;
  std::array<ConstBytes, kMaxPieces + 1> pieces;
  std::size_t piece_count = 0;
  Lid dlid;
  Qpn destination;
};

/// Where an HCA's packets go: the wire between processes, or the simulated switch of the tests. It
/// brings a packet to all that its destination names, the sender's own port like any other: for a
/// unicast LID the process of the destination QPN, for a multicast LID every process of each node
/// that is in the group. HCA models filter; they loop nothing back by themselves.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// Delivers or drops (and counts); packets to one destination keep their order.
  virtual void send(std::span<const OutgoingPacket> batch) = 0;
};

}  // namespace softib
