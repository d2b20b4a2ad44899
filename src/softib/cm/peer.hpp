// The port at the other end of a conversation.
#pragma once

#include <compare>

#include "softib/core/mad_packet.hpp"

namespace softib::cm {

/// A port by its base LID; on Ethernet, where ports have no LIDs, by its GID.
struct Peer {
  Lid lid;
  Gid gid;
  friend auto operator<=>(const Peer&, const Peer&) = default;

  /// `lmc` is that of all ports of the subnet.
  [[nodiscard]] static Peer of(Lid lid, const Gid& gid, std::uint8_t lmc) {
    return lid == Lid() ? Peer{lid, gid} : Peer{ipoib::base_lid(lid, lmc), Gid()};
  }
  /// The port that has sent a packet.
  [[nodiscard]] static Peer sender_of(const MadPacket& packet, std::uint8_t lmc) {
    return of(packet.slid, packet.grh ? packet.grh->sgid : Gid(), lmc);
  }
};

}  // namespace softib::cm
