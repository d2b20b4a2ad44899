// The checks of QP1 of a port for each MAD (IBA 10.2.4, 10.9).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "softib/core/mad_packet.hpp"
#include "softib/fabric/port_counters.hpp"

namespace softib::fabric {

/// The first P_Key of the port that admits the packet.
[[nodiscard]] inline std::optional<std::uint16_t> pkey_index_for(const MadPacket& packet,
                                                                 const PortAttributes& port) {
  const auto entry =
      std::ranges::find_if(port.pkeys, [&](PKey ours) { return ours.admits(packet.pkey); });
  if (entry == port.pkeys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(entry - port.pkeys.begin());
}

/// The counter if the port drops a packet to QP1; nullopt if it does not.
[[nodiscard]] inline std::optional<PortCounter> gsi_drop(const MadPacket& packet,
                                                         const PortAttributes& port) {
  if (packet.qkey != ipoib::wire::kGsiQKey) return PortCounter::drop_qkey;
  if (!pkey_index_for(packet, port)) return PortCounter::drop_pkey;
  if (!admits_route(port, packet.grh)) return PortCounter::drop_malformed;
  return std::nullopt;
}

}  // namespace softib::fabric
