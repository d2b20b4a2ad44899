// Packets on their way out of an HCA, and where they go.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "softib/core/fabric_types.hpp"
#include "wire/packet.hpp"

namespace softib {

inline constexpr std::size_t kMaxMtu = 4096;  ///< octets
/// The largest packet that is not to be cut, LRH to padding.
inline constexpr std::size_t kMaxPacketBytes = kMaxMtu + ipoib::wire::UdPacket::kMaxHeaderSize + 3;

/// A large packet stands for several, which LargePacket makes of it where it is taken off the wire:
/// it has the headers of the first, and all of the payload.
struct GsoInfo {
  std::uint16_t size = 0;     ///< octets of the payload of TCP or UDP in each; 0: it is one packet
  std::uint16_t packets = 1;  ///< that it stands for
};

/// A packet as an HCA sends it: the headers it wrote, and the user's memory, gathered by the wire.
/// All of it is valid only during the call that hands it over. No CRCs: captures compute them.
struct OutgoingPacket {
  /// A checksum that goes out in the place of what the user's memory has there.
  struct Patch {
    std::uint32_t offset = 0;  ///< in the payload
    std::uint16_t value = 0;
  };
  /// Scatter elements of one work request; before them the headers of what is to be cut, or behind
  /// them padding, which that has not.
  static constexpr std::size_t kMaxPieces = 16;

  std::array<std::uint8_t, ipoib::wire::UdPacket::kMaxHeaderSize> header;
  std::size_t header_size = 0;
  std::array<ConstBytes, kMaxPieces + 1> pieces;
  std::size_t piece_count = 0;
  std::size_t payload_size = 0;  ///< bytes of all pieces
  std::array<Patch, 2> patches;  ///< of IP, and of what is in it
  std::size_t patch_count = 0;
  bool checksums_valid = false;  ///< the HCA has computed them, or who cuts it is to
  GsoInfo gso{};
  Lid dlid;
  Qpn destination;

  void add(ConstBytes piece) {
    pieces[piece_count++] = piece;
    payload_size += piece.size();
  }
  /// LRH to padding, in bytes.
  [[nodiscard]] std::size_t size() const { return header_size + payload_size; }
};

/// How many packets these stand for.
[[nodiscard]] std::size_t count_packets(std::span<const OutgoingPacket> some);
[[nodiscard]] std::size_t count_packets(std::span<const OutgoingPacket* const> some);
/// Writes it as it travels to `to`, which has room for packet.size() bytes.
void write_packet(const OutgoingPacket& packet, std::uint8_t* to);

/// A packet that has come, LRH to padding; a large one has none.
struct ArrivedPacket {
  ConstBytes octets;
  bool checksums_valid = false;  ///< its sender's HCA has computed them; of what is cut from it
  GsoInfo gso{};
};

/// How many packets these stand for.
[[nodiscard]] std::size_t count_packets(std::span<const ArrivedPacket> some);

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
