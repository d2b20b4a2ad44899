// A management datagram on the wire: a UD packet with 256 bytes of payload to QP0 or QP1
// (IBA 13.4, 13.5.1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"

namespace softib {

struct MadPacket {
  /// LRH 8, BTH 12, DETH 8, MAD 256. Emitted packets have no GRH.
  static constexpr std::size_t kPacketSize = 8 + 12 + 8 + ipoib::wire::kMadSize;
  using Bytes = std::array<std::uint8_t, ipoib::wire::kMadSize>;

  Lid slid;
  Lid dlid;
  ServiceLevel sl;
  PKey pkey = ipoib::kDefaultPKey;
  Qpn source;
  Qpn destination;  ///< 0 for subnet management packets, else 1
  QKey qkey;        ///< kGsiQKey for QP1
  Bytes mad{};

  /// Returns nullopt unless `packet` is a UD packet with 256 bytes of payload to QP0 or QP1. Skips
  /// a GRH.
  [[nodiscard]] static std::optional<MadPacket> parse(ConstBytes packet);
  /// Writes the whole packet, LRH to padding.
  void emit(std::span<std::uint8_t, kPacketSize> to) const;
};

}  // namespace softib
