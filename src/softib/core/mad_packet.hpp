// A management datagram as it travels: a UD packet of 256 octets of payload to QP0 or QP1
// (IBA 13.4, 13.5.1). The one place that knows how a MAD lies in a packet, for the subnet and for
// its clients.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "softib/core/fabric_types.hpp"
#include "wire/mad.hpp"

namespace softib {

struct MadPacket {
  /// LRH 8, BTH 12, DETH 8, MAD 256; never a GRH on the way out.
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

  /// Nothing unless it is a UD packet of 256 octets to QP0 or QP1. A GRH is skipped.
  [[nodiscard]] static std::optional<MadPacket> parse(ConstBytes packet);
  /// LRH to padding, kPacketSize octets.
  void emit(std::span<std::uint8_t, kPacketSize> to) const;
};

}  // namespace softib
