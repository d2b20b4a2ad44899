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
  /// A checksum that goes out in the place of what the user's memory has there.
  struct Patch {
    std::uint32_t offset = 0;  ///< in the payload
    std::uint16_t value = 0;
  };
  /// Scatter elements of one work request; before them the headers of a segment, behind them
  /// padding.
  static constexpr std::size_t kMaxPieces = 16;

  std::array<std::uint8_t, ipoib::wire::UdPacket::kMaxHeaderSize> header;
  std::size_t header_size = 0;
  std::array<ConstBytes, kMaxPieces + 2> pieces;
  std::size_t piece_count = 0;
  std::array<Patch, 2> patches;  ///< of IP, and of what is in it
  std::size_t patch_count = 0;
  bool checksums_right = false;  ///< the HCA has computed them
  Lid dlid;
  Qpn destination;
};

/// LRH to padding, in octets.
[[nodiscard]] std::size_t size_of(const OutgoingPacket& packet);
/// Writes it as it travels to `to`, which has room for size_of(packet) octets.
void write_packet(const OutgoingPacket& packet, std::uint8_t* to);

/// A packet that has come, LRH to padding.
struct ArrivedPacket {
  ConstBytes octets;
  bool checksums_right = false;  ///< its sender's HCA has computed them
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
