// Vocabulary of the emulated subnet: its bounds, and what the SM configures on a port.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

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
inline constexpr std::uint8_t kMaxHcaPorts = 2;

using NodeIndex = std::uint16_t;
using NodeSet = std::bitset<kMaxNodes>;

/// IBA 14.2.5.6, PortState.
enum class PortState : std::uint8_t { down = 1, init = 2, armed = 3, active = 4 };

/// What the SM has configured on the port of an HCA. A process compares two of these, one after the
/// other, to know which asynchronous events to raise.
struct PortAttributes {
  Guid node_guid;
  Guid port_guid;
  /// Which port of its HCA this is, the last one; into those before it no cable is plugged.
  std::uint8_t number = 1;
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  Lid lid;               ///< the first of its 2^lmc LIDs
  std::uint8_t lmc = 0;  ///< at most ipoib::kMaxLmc
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
  [[nodiscard]] bool has(Lid other) const { return ipoib::base_lid(other, lmc) == lid; }
  /// Which of its LIDs a packet to it names; 0 for one that is led otherwise.
  [[nodiscard]] std::uint8_t path_bits_of(Lid dlid) const {
    return has(dlid) ? ipoib::path_bits(dlid, lmc) : std::uint8_t{0};
  }
  /// The LID to send from; of the bits only those count that the LMC leaves open (IBA 11.2.2.1).
  [[nodiscard]] Lid source_lid(std::uint8_t path_bits) const {
    const std::uint8_t open = ipoib::path_bits(Lid(path_bits), lmc);
    return Lid(static_cast<std::uint16_t>(lid.value() | open));
  }
  [[nodiscard]] bool has_failed() const { return life % 2 != 0; }
  friend bool operator==(const PortAttributes&, const PortAttributes&) = default;
};

/// A queue pair number names the process that owns it, so that a packet finds its process without
/// a table of queue pairs:  | epoch 8 | slot 6 | index 10 |
/// A process takes one of an HCA's slots; the epoch of a slot grows each time it is taken, so
/// that the numbers of a dead process do not come back soon. Epoch 0 is never used (it has QP0,
/// QP1), nor is 255 (it has the multicast QPN 0xffffff).
struct QpnLayout {
  static constexpr unsigned kIndexBits = 10;
  static constexpr unsigned kSlotBits = 6;
  static constexpr std::uint32_t kQpsPerSlot = 1U << kIndexBits;
  static constexpr std::uint32_t kSlots = 1U << kSlotBits;
  static constexpr std::uint32_t kMaxEpoch = 254;

  [[nodiscard]] static constexpr Qpn make(std::uint32_t epoch, std::uint32_t slot,
                                          std::uint32_t index) {
    return Qpn((epoch << kSlotBits | slot) << kIndexBits | index);
  }
  [[nodiscard]] static constexpr std::uint32_t slot(Qpn qpn) {
    return qpn.value() >> kIndexBits & (kSlots - 1);
  }
  [[nodiscard]] static constexpr std::uint32_t epoch(Qpn qpn) {
    return qpn.value() >> (kIndexBits + kSlotBits);
  }
  [[nodiscard]] static constexpr std::uint32_t index(Qpn qpn) {
    return qpn.value() & (kQpsPerSlot - 1);
  }
};

}  // namespace softib
