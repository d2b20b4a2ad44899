// Limits of the emulated subnet, and the port attributes that the SM configures.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "softib/core/link_faults.hpp"
#include "softib/core/qp_errors.hpp"

namespace softib {

using ipoib::ConstBytes;
using ipoib::Gid;
using ipoib::Guid;
using ipoib::Lid;
using ipoib::PKey;
using ipoib::QKey;
using ipoib::Qpn;
using ipoib::ServiceLevel;

/// Limits of one subnet. A node is a port of an HCA; node 0 is the SM's own port.
inline constexpr std::size_t kMaxNodes = 4096;
inline constexpr std::size_t kMaxGroups = 1024;  ///< multicast LIDs 0xc000 and up
inline constexpr std::size_t kPKeyTableSize = 32;
inline constexpr std::size_t kMaxNodeName = 63;  ///< bytes
inline constexpr std::uint8_t kMaxHcaPorts = 2;

using NodeIndex = std::uint16_t;
/// The node of the subnet process: its SM, or with an external SM its switch.
inline constexpr NodeIndex kSubnetNode = 0;
/// The only HCA, if the subnet is that of a RoCE port.
inline constexpr NodeIndex kRoceNode = 1;
using NodeSet = std::bitset<kMaxNodes>;

/// Number of a switch in its subnet.
using SwitchIndex = std::uint16_t;
inline constexpr std::size_t kMaxSwitches = 1024;
/// Number of a port of a switch. 0 is the switch's own port. The switch of a subnet without a
/// topology has a port for each node; SMPs only reach its ports up to 254 (IBA 18.2.1).
using SwitchPort = std::uint16_t;
inline constexpr SwitchPort kMaxSwitchPort = kMaxNodes;
/// Ports 1 to kMaxSwitchPort; bit i is port i + 1.
using PortSet = std::bitset<kMaxSwitchPort>;

/// The port of a switch to which a node is connected.
struct Attachment {
  SwitchIndex switch_index = 0;
  SwitchPort port = 0;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

enum class LinkLayer : std::uint8_t { infiniband, ethernet };
/// Entries of the GID table of an Ethernet port, which has one for each IP address. An InfiniBand
/// port has one GID.
inline constexpr std::size_t kMaxGids = 8;
/// The DLID, within a process, of all multicast packets of an Ethernet port; they have none on the
/// wire.
inline constexpr Lid kRoceMulticastLid = ipoib::kFirstMulticastLid;

/// PortState (IBA 14.2.5.6).
enum class PortState : std::uint8_t { down = 1, init = 2, armed = 3, active = 4 };

/// Configuration of an HCA's port, as set by the SM; of an Ethernet port, as its network interface
/// is. A process compares two successive values to
/// find the asynchronous events to raise.
struct PortAttributes {
  Guid node_guid;
  Guid port_guid;
  std::uint8_t number = 1;     ///< of the port on its HCA
  std::uint8_t hca_ports = 1;  ///< of the HCA, with and without a cable
  bool has_cable = true;       ///< false: the subnet knows nothing of the port (HcaPorts)
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  Lid lid;               ///< the first of its 2^lmc LIDs
  std::uint8_t lmc = 0;  ///< at most ipoib::kMaxLmc
  Lid sm_lid;
  ServiceLevel sm_sl;
  PortState state = PortState::down;
  std::uint16_t losses = 0;            ///< grows when the port stops being active
  std::uint8_t mtu = 4;                ///< IBA code of active and neighbour MTU
  std::uint8_t max_mtu = 5;            ///< IBA code
  std::uint8_t vl_capability = 1;      ///< IBA VLCap: 1 = VL0, 4 = VL0 to VL7
  std::uint8_t operational_vls = 1;    ///< as VLCap
  std::uint8_t width = 2;              ///< IBA LinkWidthActive: 2 = 4x
  std::uint8_t speed = 4;              ///< IBA LinkSpeedActive: 4 = QDR
  std::uint16_t reregister_count = 0;  ///< grows when the SM requests re-registration
  /// Grows when the HCA recovers from a failure: processes that attached earlier have lost it.
  std::uint16_t generation = 0;  ///< 15 bits in the fabric file
  bool failed = false;           ///< the HCA has failed and not recovered
  LinkFaults faults;             ///< of the packets that the HCA sends
  QpErrors qp_errors;            ///< of the processes on the HCA
  bool grh_required = false;     ///< its packets need a GRH: virtual functions share LIDs
  LinkLayer link_layer = LinkLayer::infiniband;
  /// Of an Ethernet port: RoCE v2 GIDs, IPv4 addresses as ::ffff:a.b.c.d; the rest is zero.
  std::array<Gid, kMaxGids> gids{};
  std::uint32_t network_interface = 0;  ///< index of that of an Ethernet port; else 0
  std::array<PKey, kPKeyTableSize> pkeys{};

  [[nodiscard]] bool is_ethernet() const { return link_layer == LinkLayer::ethernet; }
  void set_state(PortState next) {
    if (state == PortState::active && next != PortState::active) ++losses;
    state = next;
  }
  /// The first GID.
  [[nodiscard]] Gid gid() const { return is_ethernet() ? gids[0] : Gid(gid_prefix, port_guid); }
  /// An entry of the GID table; zero if there is none.
  [[nodiscard]] Gid gid(std::size_t index) const {
    if (is_ethernet()) return index < gids.size() ? gids[index] : Gid();
    return index == 0 ? gid() : Gid();
  }
  /// The index of a GID; nullopt if it is none of the port.
  [[nodiscard]] std::optional<std::size_t> gid_index(const Gid& own) const {
    for (std::size_t i = 0; i < gid_table_size(); ++i) {
      if (!own.is_zero() && gid(i) == own) return i;
    }
    return std::nullopt;
  }
  /// Entries of the GID table.
  [[nodiscard]] std::size_t gid_table_size() const { return is_ethernet() ? kMaxGids : 1; }
  /// Whether a GRH with this destination is for the port. The port of the SM also has the SA's GID.
  [[nodiscard]] bool has(const Gid& dgid) const {
    if (is_ethernet()) return !dgid.is_zero() && std::ranges::find(gids, dgid) != gids.end();
    const bool is_own_prefix =
        dgid.prefix() == gid_prefix || dgid.prefix() == Gid::kLinkLocalPrefix;
    const bool is_sa = ipoib::is_unicast(lid) && lid == sm_lid && dgid.guid() == ipoib::kSaGuid;
    return is_own_prefix && (dgid.guid() == port_guid || is_sa);
  }
  [[nodiscard]] bool has(Lid other) const { return ipoib::base_lid(other, lmc) == lid; }
  /// The path bits of `dlid` if it is a LID of this port, else 0.
  [[nodiscard]] std::uint8_t path_bits_of(Lid dlid) const {
    return has(dlid) ? ipoib::path_bits(dlid, lmc) : std::uint8_t{0};
  }
  /// The source LID for `path_bits`, of which only the low `lmc` bits are used (IBA 11.2.2.1).
  [[nodiscard]] Lid source_lid(std::uint8_t path_bits) const {
    return Lid(static_cast<std::uint16_t>(lid.value() | ipoib::path_bits(Lid(path_bits), lmc)));
  }
  /// Whether a process that attached to the HCA in `attached_generation` can still use it.
  [[nodiscard]] bool serves(std::uint16_t attached_generation) const {
    return !failed && generation == attached_generation;
  }
  friend bool operator==(const PortAttributes&, const PortAttributes&) = default;
};

/// A queue pair number identifies the process that owns the queue pair, so that packets are routed
/// to processes without a global table of queue pairs:  | epoch 4 | slot 8 | index 12 |
/// A process on an HCA occupies one of its process slots. The epoch of a slot grows each time the
/// slot is taken, so that the numbers of a dead process are not reused soon. Epoch 0 is never used
/// (it contains QP0 and QP1), nor is 15 (it contains the multicast QPN 0xffffff).
struct QpnLayout {
  static constexpr unsigned kIndexBits = 12;
  static constexpr unsigned kSlotBits = 8;
  static constexpr std::uint32_t kQpsPerSlot = 1U << kIndexBits;
  static constexpr std::uint32_t kSlots = 1U << kSlotBits;
  static constexpr std::uint32_t kMaxEpoch = 14;

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
/// Process slots of an HCA.
using SlotSet = std::bitset<QpnLayout::kSlots>;

}  // namespace softib
