// Subnet management packets (IBA 14.2.1): how one lies in a MAD, and the way that it goes.
//
// The cabling is one switch with node i on port i + 1. A LID-routed packet names its node by its
// DLID. A directed route (IBA 14.2.2) starts at the sender, whom its transaction id names: on a
// fabric the cable does.
#pragma once

#include <array>
#include <optional>

#include "softib/core/mad_packet.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

inline constexpr std::size_t kSmpDataOffset = 64;
inline constexpr std::size_t kSmpDataSize = 64;
inline constexpr std::size_t kMaxHops = 63;
inline constexpr std::uint8_t kSmpClassVersion = 1;
/// Of the status of a directed-route packet: it is on its way back.
inline constexpr std::uint16_t kSmpDirectionBit = 0x8000;

using SmpData = std::array<std::uint8_t, kSmpDataSize>;

/// Attributes of subnet management (IBA 14.2.5), besides those that others know as well.
namespace smp_attribute {
inline constexpr std::uint16_t kNodeDescription = 0x0010;
inline constexpr std::uint16_t kSwitchInfo = 0x0012;
inline constexpr std::uint16_t kGuidInfo = 0x0014;
inline constexpr std::uint16_t kPKeyTable = 0x0016;
inline constexpr std::uint16_t kLinearForwardingTable = 0x0019;
inline constexpr std::uint16_t kMulticastForwardingTable = 0x001b;
inline constexpr std::uint16_t kSmInfo = 0x0020;
}  // namespace smp_attribute

/// Methods that only subnet management has (IBA 13.4.5).
namespace smp_method {
inline constexpr std::uint8_t kTrap = 0x05;
inline constexpr std::uint8_t kTrapRepress = 0x07;
}  // namespace smp_method

/// Where a packet has come to: a node or the switch, and the port that it came in by.
struct SmpTarget {
  const Node* node = nullptr;  ///< never null
  bool is_switch = false;
  NodeIndex index = 0;  ///< of a node
  std::uint8_t entry_port = 1;
  std::array<std::uint8_t, kMaxHops + 1> return_path{};
};

/// The M_Key that a packet comes with.
[[nodiscard]] std::uint64_t m_key_of(const MadPacket::Bytes& mad);

enum class SmpRoute : std::uint8_t {
  found,
  unreachable,  ///< no node with that LID, or a cable of the route does not exist or is down
  invalid       ///< not directed from end to end, or not at its first hop
};

/// Whether it is of the class that has a route of its own.
[[nodiscard]] bool is_directed(const ipoib::wire::MadHeader& header);
/// Follows a packet from `sender`, which exists.
[[nodiscard]] SmpRoute resolve_target(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                      NodeIndex sender, const SubnetManager& manager,
                                      SmpTarget& target);
/// The way that a packet has come, for whoever answers it; nothing for one without such a route.
void write_return_path(const SmpTarget& target, const ipoib::wire::MadHeader& header,
                       MadPacket::Bytes& mad);
/// The same for one that is handed over at its end (IBA 14.2.2.2).
void finish_route(const SmpTarget& target, const ipoib::wire::MadHeader& header,
                  MadPacket::Bytes& mad);

}  // namespace softib::subnet
