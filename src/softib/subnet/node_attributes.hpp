// Subnet management attributes of the nodes (IBA 14.2.5), for the SMAs and the SA.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "softib/subnet/subnet_manager.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {

/// A locally administered OUI, and the only device type.
inline constexpr std::uint32_t kVendorId = 0x02501b;
inline constexpr std::uint16_t kDeviceId = 1;
inline constexpr std::uint32_t kHardwareRevision = 0;
inline constexpr const char* kDeviceType = "softib";
inline constexpr const char* kFirmwareVersion = SOFTIB_VERSION;

/// Bits of PortInfo:CapabilityMask.
inline constexpr std::uint32_t kCapabilityIsSm = 1U << 1;
inline constexpr std::uint32_t kCapabilityTrap = 1U << 3;
inline constexpr std::uint32_t kCapabilitySlMapping = 1U << 6;
inline constexpr std::uint32_t kCapabilitySystemImageGuid = 1U << 11;
inline constexpr std::uint32_t kCapabilityClientReregister = 1U << 25;

/// The number of the switch port that a node is connected to; nullopt if management packets cannot
/// name it.
[[nodiscard]] std::optional<std::uint8_t> switch_port(const Node& node);
/// The highest number of a port of the switch that `node` is.
[[nodiscard]] std::uint8_t switch_port_count(const SubnetManager& manager, const Node& node);

[[nodiscard]] ipoib::wire::NodeInfo node_info(const SubnetManager& manager, const Node& node);
[[nodiscard]] std::array<char, ipoib::wire::NodeRecord::kDescriptionSize> node_description(
    const Node& node);
/// A number of packets as P_KeyViolations and Q_KeyViolations, which stop at their largest value.
[[nodiscard]] inline std::uint16_t violation_counter(std::uint64_t packets) {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(packets, UINT16_MAX));
}
/// PortInfo of the port with these attributes, for subnet management, the SA, verbs and umad.
[[nodiscard]] ipoib::wire::PortInfo port_info(const PortAttributes& port);
/// PortInfo of a port of an HCA or of the switch, which must exist. Port 0 of the switch is its
/// management port.
[[nodiscard]] ipoib::wire::PortInfo port_info(const SubnetManager& manager, const Node& node,
                                              std::uint8_t port);

}  // namespace softib::subnet
