// Subnet management packets (IBA 14.2.1): their layout and routing.
//
// A LID-routed packet follows the tables of the switches. A directed route (IBA 14.2.2) names the
// exit port of each hop. Both start at the sender, which the transaction ID identifies.
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
/// Direction bit in the status of a directed-route SMP, set in responses.
inline constexpr std::uint16_t kSmpDirectionBit = 0x8000;

using SmpData = std::array<std::uint8_t, kSmpDataSize>;

/// Attributes of subnet management (IBA 14.2.5), in addition to ipoib::wire::attribute.
namespace smp_attribute {
inline constexpr std::uint16_t kNodeDescription = 0x0010;
inline constexpr std::uint16_t kSwitchInfo = 0x0012;
inline constexpr std::uint16_t kGuidInfo = 0x0014;
inline constexpr std::uint16_t kPKeyTable = 0x0016;
inline constexpr std::uint16_t kSlToVlMapping = 0x0017;
inline constexpr std::uint16_t kVlArbitration = 0x0018;
inline constexpr std::uint16_t kLinearForwardingTable = 0x0019;
inline constexpr std::uint16_t kMulticastForwardingTable = 0x001b;
inline constexpr std::uint16_t kSmInfo = 0x0020;
}  // namespace smp_attribute

/// Methods of subnet management, in addition to ipoib::wire::method (IBA 13.4.5).
namespace smp_method {
inline constexpr std::uint8_t kTrap = 0x05;
inline constexpr std::uint8_t kTrapRepress = 0x07;
}  // namespace smp_method

/// The destination of a packet: an HCA or a switch, and the port that received it.
struct SmpTarget {
  const Node* node = nullptr;  ///< never null
  NodeIndex index = 0;         ///< of the node; of a switch, of no meaning
  std::uint8_t entry_port = 0;
  std::array<std::uint8_t, kMaxHops + 1> return_path{};

  [[nodiscard]] bool is_switch() const { return node->switch_index.has_value(); }
};

/// The M_Key of a packet.
[[nodiscard]] std::uint64_t m_key_of(const MadPacket::Bytes& mad);

enum class SmpRoute : std::uint8_t {
  found,
  unreachable,  ///< no node with that LID, or a cable of the route does not exist or is down
  invalid       ///< not directed from end to end, or not at its first hop
};

/// Whether the packet is a directed-route SMP.
[[nodiscard]] bool is_directed(const ipoib::wire::MadHeader& header);
/// Finds the destination of a packet from `sender`, which must exist.
[[nodiscard]] SmpRoute resolve_target(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                      NodeIndex sender, const SubnetManager& manager,
                                      SmpTarget& target);
/// Writes the return path of a directed-route SMP; other packets stay as they are.
void write_return_path(const SmpTarget& target, const ipoib::wire::MadHeader& header,
                       MadPacket::Bytes& mad);
/// Writes the return path, and advances the hop pointer to the end of the route (IBA 14.2.2.2).
void finish_route(const SmpTarget& target, const ipoib::wire::MadHeader& header,
                  MadPacket::Bytes& mad);

}  // namespace softib::subnet
