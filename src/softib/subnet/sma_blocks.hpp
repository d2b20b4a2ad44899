// Shared by reading and writing of the switch's attributes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "softib/subnet/smp.hpp"

namespace softib::subnet {

inline constexpr std::uint32_t kUnicastBlocks = kUnicastLids / kBlockLids;
static_assert(kBlockLids == kSmpDataSize);
inline constexpr std::uint8_t kNoPort = 255;
inline constexpr unsigned kLifeTimeShift = 3;
inline constexpr std::uint8_t kLinksChangedBit = 1U << 2;
inline constexpr std::uint8_t kEnforcementBits = 0xc0;  ///< inbound and outbound

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

/// The block of 32 keys of a P_Key table, as the attribute modifier names it (IBA 14.2.5.7):
///   | port of a switch 16 | block 16 |
struct PKeyBlock {
  /// Returns the port, 0 for that of an HCA (`at` is null). nullopt if there is no such block.
  [[nodiscard]] static std::optional<SwitchPort> of(std::uint32_t modifier, const Switch* at) {
    const auto port = at != nullptr ? static_cast<SwitchPort>(modifier >> 16) : SwitchPort{0};
    const bool is_port = at == nullptr || port <= std::min(at->port_count, at->last_port());
    return (modifier & 0xffff) == 0 && is_port ? std::optional(port) : std::nullopt;
  }
};

/// A block of the tables of virtual lanes, as the attribute modifier names it:
///   SL to VL          | - 16 | input port 8 | output port 8 |, of a switch (IBA 14.2.5.8)
///   VL arbitration    | block + 1 16 | - 8 | output port 8 | (IBA 14.2.5.9)
/// The port of an HCA has number 0 here.
struct LaneBlock {
  unsigned in = 0;
  unsigned out = 0;
  unsigned number = 0;  ///< of VL arbitration

  /// Returns nullopt if the node does not have such a block.
  [[nodiscard]] static std::optional<LaneBlock> of(std::uint16_t attribute, std::uint32_t modifier,
                                                   const Node& node) {
    LaneBlock block{0, modifier & 0xff, 0};
    if (attribute == smp_attribute::kSlToVlMapping) {
      block.in = modifier >> 8 & 0xff;
    } else {
      block.number = (modifier >> 16) - 1;  // 0 becomes too large
      if (block.number >= LaneTables::kArbitrationBlocks) return std::nullopt;
    }
    if (!node.switch_index) block.in = block.out = 0;
    const bool is_there = node.lanes.has_port(block.in) && node.lanes.has_port(block.out);
    return is_there ? std::optional(block) : std::nullopt;
  }
};

}  // namespace softib::subnet
