// A management datagram on the wire: a UD packet with 256 bytes of payload to QP0 or QP1
// (IBA 13.4, 13.5.1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"
#include "wire/packet.hpp"

namespace softib {

struct MadPacket {
  /// LRH 8, GRH 40 (optional), BTH 12, DETH 8, MAD 256.
  static constexpr std::size_t kMaxPacketSize = 8 + 40 + 12 + 8 + ipoib::wire::kMadSize;
  using Bytes = std::array<std::uint8_t, ipoib::wire::kMadSize>;

  Lid slid;
  Lid dlid;
  ServiceLevel sl;
  PKey pkey = ipoib::kDefaultPKey;
  Qpn source;
  Qpn destination;                      ///< 0 for subnet management packets, else 1
  QKey qkey;                            ///< kGsiQKey for QP1
  std::optional<ipoib::wire::Grh> grh;  ///< never of subnet management packets (IBA 14.2.1)
  std::uint8_t port = 1;  ///< of the HCA, by which it leaves, or has arrived; not on the wire
  Bytes mad{};

  /// Returns nullopt unless `packet` is a UD packet with 256 bytes of payload to QP0 or QP1.
  [[nodiscard]] static std::optional<MadPacket> parse(ConstBytes packet);
  /// Writes the whole packet, LRH to padding, and returns it.
  [[nodiscard]] ConstBytes emit(std::span<std::uint8_t, kMaxPacketSize> to) const;
  /// Swaps source and destination.
  void reverse();
};

/// Whether a packet with this route may arrive at a port: its GRH is for the port, or it has none
/// and needs none.
[[nodiscard]] inline bool admits_route(const PortAttributes& port,
                                       const std::optional<ipoib::wire::Grh>& grh) {
  return grh ? port.has(grh->dgid) : !port.grh_required;
}

}  // namespace softib
