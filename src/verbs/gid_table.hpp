// Which entry of a RoCE port's GID table an interface is known by.
//
// A port has a GID for each address of its network device and each way of encapsulation. Ours has
// to be of RoCE v2, where the GRH is an IP header, and an IPv6 address: the multicast GIDs of RFC
// 4391 are IPv6 addresses, and one packet has addresses of one family.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib::verbs {

struct GidEntry {
  std::uint8_t index = 0;
  Gid gid;
  bool is_roce_v2 = false;
  std::uint32_t network_device = 0;  ///< its interface index
  /// The network device has that address, and so answers for it: of the one that is made from its
  /// MAC address this need not be so (RFC 7217).
  bool is_an_address = false;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// Of RoCE v2, and an IPv6 address.
[[nodiscard]] bool is_usable(const GidEntry& entry);

/// The entry `wanted`, or without that a usable one: rather one that is an address, then rather a
/// link-local one, which each device has and keeps, then the first. Nothing when that is not
/// usable, or not there.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table,
                                                 std::optional<std::uint8_t> wanted);

/// Those of a port, in the order of their indices; none when they cannot be read.
[[nodiscard]] std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port);

}  // namespace ipoib::verbs
