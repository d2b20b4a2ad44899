// Nodes of the emulated subnet as subnet management describes them (IBA 14.2.5): what the SMA of a
// node answers and what the SA keeps of it are the same values.
#pragma once

#include <optional>

#include "softib/subnet/subnet_manager.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {

/// An OUI of the locally administered kind, and the one kind of device.
inline constexpr std::uint32_t kVendorId = 0x02501b;
inline constexpr std::uint16_t kDeviceId = 1;
inline constexpr std::uint32_t kHardwareRevision = 0;
inline constexpr const char* kDeviceType = "softib";
inline constexpr const char* kFirmwareVersion = SOFTIB_VERSION;
/// 4.096 us * 2^18, about a second: OpenSM's default for SubnetTimeOut and packet lifetime.
inline constexpr std::uint8_t kSubnetTimeout = 18;

/// Bits of PortInfo:CapabilityMask.
inline constexpr std::uint32_t kCapabilityIsSm = 1U << 1;
inline constexpr std::uint32_t kCapabilitySystemImageGuid = 1U << 11;
inline constexpr std::uint32_t kCapabilityClientReregister = 1U << 25;

/// The port of the switch that a node is cabled to.
[[nodiscard]] std::optional<std::uint8_t> switch_port(NodeIndex node);
[[nodiscard]] std::uint8_t switch_port_count(const SubnetManager& manager);

[[nodiscard]] ipoib::wire::NodeInfo node_info(const SubnetManager& manager, const Node& node);
[[nodiscard]] std::array<char, ipoib::wire::NodeRecord::kDescriptionSize> node_description(
    const Node& node);
/// Port `number` of the HCA that is on the subnet by `cabled`: this one, or one without a cable.
/// Nothing: the HCA has no such port.
[[nodiscard]] std::optional<PortAttributes> port_of_hca(const PortAttributes& cabled,
                                                        unsigned number);
/// Of the port that has these attributes. Subnet management, the SA, verbs and umad all tell this.
[[nodiscard]] ipoib::wire::PortInfo port_info(const PortAttributes& port);
/// Of any port of an HCA or of the switch, which has it; port 0 of a switch is its own.
[[nodiscard]] ipoib::wire::PortInfo port_info(const SubnetManager& manager, const Node& node,
                                              std::uint8_t port);

}  // namespace softib::subnet
