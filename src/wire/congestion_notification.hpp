// The congestion notification packet of RoCE v2 (IBA annex A17.9.3): the receiver of a flow tells
// its sender that a switch has marked packets of it.
#pragma once

#include <optional>

#include "wire/packet.hpp"

namespace ipoib::wire {

struct CongestionNotification : DataPacket {
  static constexpr std::uint8_t kOpcode = 0x81;
  static constexpr std::size_t kReserved = 16;  ///< bytes of payload
  static constexpr std::size_t kSize = Lrh::kSize + Grh::kSize + Bth::kSize + kReserved;

  /// Returns nullopt unless it is one, LRH to payload.
  [[nodiscard]] static std::optional<CongestionNotification> parse(ConstBytes packet);
  /// Sets opcode, BECN and lengths, and writes the packet to `to` (kSize). Returns its size.
  std::size_t emit(MutableBytes to);
};

/// Whether a switch has marked a packet that came with this traffic class: "Congestion Experienced"
/// (RFC 3168, 5).
[[nodiscard]] constexpr bool is_marked(std::uint8_t traffic_class) {
  return (traffic_class & 3) == 3;
}
/// The traffic class of packets that switches may mark, ECT(0), unless it says something of ECN
/// itself.
[[nodiscard]] constexpr std::uint8_t markable(std::uint8_t traffic_class) {
  return (traffic_class & 3) == 0 ? static_cast<std::uint8_t>(traffic_class | 2) : traffic_class;
}

}  // namespace ipoib::wire
