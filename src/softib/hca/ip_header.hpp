// The 40 bytes before the payload of a datagram that an Ethernet port has received: the IP header
// of the packet, as adapters deliver it (IBA annex A17.4.5). An IPv4 header is in the last 20
// bytes.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "softib/core/fabric_types.hpp"
#include "wire/packet.hpp"

namespace softib::hca {

using IpHeaderBytes = std::array<std::uint8_t, ipoib::wire::Grh::kSize>;

/// The header of a packet that came with this GRH, whose GIDs are IP addresses.
[[nodiscard]] IpHeaderBytes ip_header_of(const ipoib::wire::Grh& grh);
/// What an IPv4 header in these bytes says; nullopt if they hold none.
[[nodiscard]] std::optional<ipoib::wire::Grh> ipv4_route_of(
    std::span<const std::uint8_t, ipoib::wire::Grh::kSize> bytes);

}  // namespace softib::hca
