// Vocabulary of the emulated subnet: what the SM configures on a port, and packets on their way.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/packet.hpp"

namespace softib {

using ipoib::ConstBytes;
using ipoib::Gid;
using ipoib::Guid;
using ipoib::Lid;
using ipoib::PKey;
using ipoib::QKey;
using ipoib::Qpn;
using ipoib::ServiceLevel;

/// Bounds of one subnet. Node 0 is the SM's own port.
inline constexpr std::size_t kMaxNodes = 1024;
inline constexpr std::size_t kMaxGroups = 1024;  ///< multicast LIDs 0xc000 and up
inline constexpr std::size_t kPKeyTableSize = 32;
inline constexpr std::size_t kMaxNodeName = 63;  ///< octets

using NodeIndex = std::uint16_t;
using NodeSet = std::bitset<kMaxNodes>;

/// IBA 14.2.5.6, PortState.
enum class PortState : std::uint8_t { down = 1, init = 2, armed = 3, active = 4 };

/// What the SM has configured on the port of an HCA. A process compares two of these, one after the
/// other, to know which asynchronous events to raise.
struct PortAttributes {
  Guid node_guid;
  Guid port_guid;
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  Lid lid;
  Lid sm_lid;
  ServiceLevel sm_sl;
  PortState state = PortState::down;
  std::uint8_t mtu = 4;                ///< IBA code of active and neighbour MTU
  std::uint8_t max_mtu = 5;            ///< IBA code
  std::uint8_t width = 2;              ///< IBA LinkWidthActive: 2 = 4x
  std::uint8_t speed = 4;              ///< IBA LinkSpeedActive: 4 = QDR
  std::uint32_t reregister_count = 0;  ///< grows when the SM asks clients to register again
  /// Grows when the HCA fails, and when it is present again: a process that was on it has lost it.
  std::uint16_t life = 0;
  std::array<PKey, kPKeyTableSize> pkeys{};

  [[nodiscard]] Gid gid() const { return Gid(gid_prefix, port_guid); }
  [[nodiscard]] bool has_failed() const { return life % 2 != 0; }
  friend bool operator==(const PortAttributes&, const PortAttributes&) = default;
};

/// A queue pair number names the process that owns it, so that a packet finds its process without
/// a table of queue pairs:  | epoch 8 | place 6 | index 10 |
/// A process takes one of an HCA's places; the epoch of a place grows each time it is taken, so
/// that the numbers of a dead process do not come back soon. Epoch 0 is never used (it has QP0,
/// QP1), nor is 255 (it has the multicast QPN 0xffffff).
struct QpnLayout {
  static constexpr unsigned kIndexBits = 10;
  static constexpr unsigned kPlaceBits = 6;
  static constexpr std::uint32_t kQpsPerPlace = 1U << kIndexBits;
  static constexpr std::uint32_t kPlaces = 1U << kPlaceBits;
  static constexpr std::uint32_t kMaxEpoch = 254;

  [[nodiscard]] static constexpr Qpn make(std::uint32_t epoch, std::uint32_t place,
                                          std::uint32_t index) {
    return Qpn((epoch << kPlaceBits | place) << kIndexBits | index);
  }
  [[nodiscard]] static constexpr std::uint32_t place(Qpn qpn) {
    return qpn.value() >> kIndexBits & (kPlaces - 1);
  }
  [[nodiscard]] static constexpr std::uint32_t epoch(Qpn qpn) {
    return qpn.value() >> (kIndexBits + kPlaceBits);
  }
  [[nodiscard]] static constexpr std::uint32_t index(Qpn qpn) {
    return qpn.value() & (kQpsPerPlace - 1);
  }
};

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
