// IP addresses of the nodes of a subnet, by which programs of librdmacm find them. No interface has
// to have them.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib {

using ipoib::IpAddress;
using ipoib::IpFamily;

/// The number of addresses that a node can have in addition to its default ones.
inline constexpr std::size_t kMaxNodeAddresses = 8;

/// The default addresses, which each node has: 127.77.x.y and fd77::xxyy, where 256 x + y is its
/// number. All of 127/8 is local on Linux, so programs can use the IPv4 one for a TCP connection,
/// too.
[[nodiscard]] IpAddress address_of(NodeIndex node, IpFamily family);
/// The node with the default address, which need not exist; nullopt for any other address.
[[nodiscard]] std::optional<NodeIndex> node_of(const IpAddress& address);

/// Whether the address is ::1 or in 127.0.0.0/24, which stands for the HCA itself. The rest of
/// 127/8 can name nodes.
[[nodiscard]] bool is_loopback(const IpAddress& address);

/// Checks whether a node can be given this address. Fails with EINVAL if it is not a unicast
/// address, is link-local or an IPv4 address in IPv6, or is in the ranges of loopback and default
/// addresses.
[[nodiscard]] ipoib::Result<void> check_address(const IpAddress& address);

/// The source address of a node towards `destination`: of the same family, with the longest common
/// prefix (RFC 6724, 5, rule 8); among equal ones the default address, then the first of `others`.
[[nodiscard]] IpAddress source_address(NodeIndex node, const std::vector<IpAddress>& others,
                                       const IpAddress& destination);

}  // namespace softib
