// What a port of a switch does with packets besides forwarding them: it may check their P_Key (IBA
// 14.2.5.6, PartitionEnforcementInbound and -Outbound), and its cable may have faults.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

using PKeyTable = std::array<PKey, kPKeyTableSize>;

/// Which checks a packet needs, as a set of the bits below.
using CheckSet = std::uint8_t;
inline constexpr CheckSet kNoChecks = 0;
inline constexpr CheckSet kPKeyCheck = 1;   ///< a switch compares its P_Key
inline constexpr CheckSet kCableFault = 2;  ///< a cable may lose it, or delays it

/// Faults of a cable, for tests, in both directions.
struct CableFaults {
  std::uint16_t loss = 0;   ///< of the packets, in hundredths of a per cent, at most kAlways
  std::uint16_t delay = 0;  ///< of all packets, ms, at most kMaxDelay

  [[nodiscard]] constexpr bool any() const { return loss != 0 || delay != 0; }
  friend bool operator==(const CableFaults&, const CableFaults&) = default;
};

/// P_Key enforcement of a port.
struct PartitionFilter {
  bool inbound = false;   ///< of packets that the port receives
  bool outbound = false;  ///< of packets that the port sends
  PKeyTable pkeys{};
  friend bool operator==(const PartitionFilter&, const PartitionFilter&) = default;
};

enum class Direction : std::uint8_t { inbound, outbound };

/// Whether an entry of a port's table lets a packet pass. A packet to a port is for its node, which
/// has the same table, so IBA 10.9.3 decides. A packet from a port has the key of its sender: a
/// limited member may not send as a full one.
[[nodiscard]] constexpr bool lets_pass(PKey entry, PKey packet, Direction direction) {
  if (direction == Direction::outbound) return entry.admits(packet);
  return entry.is_valid() && entry.same_partition(packet) && (entry.is_full() || !packet.is_full());
}

/// The headers of a packet that the checks read, or report (IBA 14.2.5.1, trap 259).
struct PacketHeaders {
  Lid slid;
  Lid dlid;
  PKey pkey;
  ServiceLevel sl;
  Qpn source;       ///< 0: unknown
  Qpn destination;  ///< 0: unknown
  friend bool operator==(const PacketHeaders&, const PacketHeaders&) = default;
};

}  // namespace softib::subnet
