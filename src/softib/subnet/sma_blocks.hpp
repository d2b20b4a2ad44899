// Shared by reading and writing of the switch's attributes.
#pragma once

#include <cstdint>
#include <optional>

#include "softib/subnet/smp.hpp"

namespace softib::subnet {

inline constexpr std::uint32_t kUnicastBlocks = kUnicastLids / kBlockLids;
static_assert(kBlockLids == kSmpDataSize);
inline constexpr std::uint8_t kNoPort = 255;
inline constexpr unsigned kLifeTimeShift = 3;
inline constexpr std::uint8_t kLinksChangedBit = 1U << 2;

/// A block of the multicast forwarding table, as the attribute modifier names it (IBA 14.2.5.12):
///   | position 4 | - 19 | block 9 |
struct MulticastBlock {
  static constexpr std::size_t kGroups = kBlockGroups;
  static constexpr unsigned kPorts = 16;

  std::uint32_t block = 0;
  unsigned position = 0;

  /// Returns nullopt if the switch does not have such a block.
  [[nodiscard]] static std::optional<MulticastBlock> parse(std::uint32_t modifier) {
    const MulticastBlock parsed{modifier & 0x1ff, modifier >> 28};
    return parsed.block < kMaxGroups / kGroups ? std::optional(parsed) : std::nullopt;
  }
  [[nodiscard]] std::size_t group(std::size_t i) const { return block * kGroups + i; }
  /// The index in a PortSet of the port of a bit. nullopt for port 0, the switch's own, which
  /// receives nothing.
  [[nodiscard]] std::optional<std::size_t> in_set(unsigned bit) const {
    const unsigned port = position * kPorts + bit;
    if (port == 0 || port > kMaxNumberedPort) return std::nullopt;
    return port - 1;
  }
};

}  // namespace softib::subnet
