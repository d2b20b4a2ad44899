// Packets that an HCA sends and receives, and the sink that sends them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "softib/core/fabric_types.hpp"
#include "wire/connected_packet.hpp"
#include "wire/packet.hpp"

namespace softib {

inline constexpr std::size_t kMaxMtu = 4096;  ///< bytes
inline constexpr std::size_t kMaxPacketHeader =
    std::max(ipoib::wire::UdPacket::kMaxHeaderSize, ipoib::wire::ConnectedPacket::kMaxHeaderSize);
/// Maximum size of a packet that is not a large packet, LRH to padding.
inline constexpr std::size_t kMaxPacketBytes = kMaxMtu + kMaxPacketHeader + 3;

/// Padding after the payload, to a multiple of 4 bytes.
inline constexpr std::array<std::uint8_t, 3> kPadding{};
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

/// Several packets that are sent as one, with the headers of the first and the payload of all: a
/// large packet (LargePacket), or a run (PacketRun). The receiver takes them apart.
struct GsoInfo {
  std::uint16_t size = 0;     ///< bytes of TCP, UDP or message payload in each; 0: one packet
  std::uint16_t packets = 1;  ///< their number
};

/// The purpose of a packet, by which its receiver decides who is to be woken.
enum class Purpose : std::uint8_t {
  datagram,
  request,   ///< of a connection: its HCA has to execute it, whatever the program does
  response,  ///< of a connection: tells the requester the outcome of its requests
};

/// A packet to send: headers written by the HCA, and pieces of the user's memory. Valid only during
/// the call that passes it. Has no CRCs; captures compute them.
struct OutgoingPacket {
  /// A computed checksum that replaces the bytes in the user's memory.
  struct Patch {
    std::uint32_t offset = 0;  ///< in the payload
    std::uint16_t value = 0;
  };
  /// Maximum number of scatter elements of a work request. One more piece is needed for the headers
  /// of a large packet or for the padding of a packet.
  static constexpr std::size_t kMaxPieces = 16;

  std::array<std::uint8_t, kMaxPacketHeader> header;
  std::size_t header_size = 0;
  std::array<ConstBytes, kMaxPieces + 1> pieces;
  std::size_t piece_count = 0;
  std::size_t payload_size = 0;  ///< bytes of all pieces
  std::array<Patch, 2> patches;  ///< of IPv4, and of TCP or UDP
  std::size_t patch_count = 0;
  bool checksums_valid = false;  ///< computed by the HCA, or by the segmentation of a large packet
  GsoInfo gso{};
  Lid dlid;
  Qpn destination;
  Purpose purpose = Purpose::datagram;
  std::uint8_t port = 1;     ///< of the HCA, by which it leaves
  bool has_icrc = false;     ///< ends with its ICRC; only over links with bit errors
  bool is_streamed = false;  ///< the receiver is busy with earlier ones, see streaming_copy.hpp

  /// Clears the content of a packet that was used before, but not its destination.
  void clear() {
    piece_count = payload_size = patch_count = header_size = 0;
    checksums_valid = is_streamed = false, gso = {};
  }
  void add(ConstBytes piece) {
    pieces[piece_count++] = piece;
    payload_size += piece.size();
  }
  /// Size from LRH to padding, in bytes.
  [[nodiscard]] std::size_t size() const { return header_size + payload_size; }
  /// The first bytes, with LRH, GRH and BTH. A packet from a link with faults is in one piece.
  [[nodiscard]] ConstBytes front() const {
    if (header_size != 0) return ConstBytes(header).first(header_size);
    return piece_count != 0 ? pieces[0] : ConstBytes{};
  }
};

/// Number of packets after segmentation.
[[nodiscard]] std::size_t count_packets(std::span<const OutgoingPacket> batch);
[[nodiscard]] std::size_t count_packets(std::span<const OutgoingPacket* const> batch);
/// Writes the packet as on the wire. `to` must have room for packet.size() bytes.
void write_packet(const OutgoingPacket& packet, std::uint8_t* to);

/// A received packet, LRH to padding. Large packets have no padding.
struct ArrivedPacket {
  ConstBytes bytes;
  bool checksums_valid = false;  ///< by the sender's HCA, or the segmentation of a large packet
  GsoInfo gso{};
  bool has_icrc = false;  ///< ends with its ICRC, which has not been checked
  std::uint8_t port = 1;  ///< of the HCA, at which it has arrived
};

/// Number of packets after segmentation.
[[nodiscard]] std::size_t count_packets(std::span<const ArrivedPacket> batch);

/// Sends the packets of an HCA: the wire between processes, or the simulated switch of the tests. A
/// packet to a unicast LID is delivered to the process of its destination QPN, a packet to a
/// multicast LID to all processes of each node in the group. This includes the sender's own port:
/// HCA models do not loop packets back themselves.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// Delivers each packet, or drops and counts it. Keeps the order of packets to one destination.
  /// All leave by one port.
  virtual void send(std::span<const OutgoingPacket> batch) = 0;
};

/// What ConnectedSink::try_send() has done with a batch.
struct TrySent {
  TrySent(std::size_t packets = 0) : done(packets) {}  // NOLINT(google-explicit-constructor)

  /// Packets, from the first, that need not be offered again: they were sent, or dropped and
  /// counted for another reason than lack of room.
  std::size_t done;
  /// The next one was dropped and counted: the path to the receiver takes only shorter ones.
  bool is_too_long = false;
};

/// Sends the packets of connections, which are never dropped for want of room: what the
/// receiver has no room for stays with the caller.
class ConnectedSink {
 public:
  virtual ~ConnectedSink() = default;
  /// Sends packets, all to one queue pair, without waiting.
  [[nodiscard]] virtual TrySent try_send(std::span<const OutgoingPacket> batch) = 0;
  /// Whether the process of a queue pair lives and has not taken all packets that were sent to it
  /// by `port`. Such packets are late, and not lost.
  [[nodiscard]] virtual bool has_untaken(std::uint8_t port, Lid dlid, Qpn destination) = 0;
};

}  // namespace softib
