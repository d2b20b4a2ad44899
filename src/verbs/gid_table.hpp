// Chooses the GID of a RoCE port that an interface uses.
//
// A port has a GID for each address of its network device and each RoCE version. IPoIB needs a GID
// of RoCE v2, where the GRH is an IP header, and an IPv6 address: the multicast GIDs of RFC 4391
// are IPv6 addresses, and a packet's addresses have the same family.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib::verbs {

struct GidEntry {
  /// No interface has this index: the network device is in another network namespace.
  static constexpr std::uint32_t kElsewhere = 0x7fffffff;

  std::uint8_t index = 0;
  Gid gid;
  bool is_roce_v2 = false;
  std::uint32_t network_device = 0;  ///< its interface index, or kElsewhere; only of usable entries
  /// Whether the GID is an address of the network device, which then answers for it. The GID
  /// derived from its MAC address need not be one (RFC 7217).
  bool is_an_address = false;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// Whether an entry is of RoCE v2, and an IPv6 address.
[[nodiscard]] bool is_usable(const GidEntry& entry);

/// Returns the entry with index `wanted`, or without that the best usable one: preferably an
/// address of the device, then a link-local one, which every device has and keeps, then the lowest
/// index. Returns nullopt if there is no such usable entry.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table,
                                                 std::optional<std::uint8_t> wanted);

/// Returns a port's entries in the order of their indices; none if they cannot be read.
[[nodiscard]] std::vector<GidEntry> read_gid_table(ibv_context* context, std::uint8_t port);

}  // namespace ipoib::verbs
