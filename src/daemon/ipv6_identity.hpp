// Where the IPv6 addresses of an interface come from.
#pragma once

#include <optional>
#include <string>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::daemon {

/// At most one of the two.
struct Ipv6Identity {
  std::optional<Ipv6Address> link_local = {};     ///< of the port's GUID (RFC 4391, 8)
  std::optional<Ipv6Address> stable_secret = {};  ///< for opaque identifiers (RFC 7217; RFC 8064)
};

/// For a partition of a port on this machine. The secret is the same after each start, another one
/// on each machine, port and partition, and tells nothing of any. Throws std::runtime_error when it
/// is wanted and the machine has no identity.
[[nodiscard]] Ipv6Identity ipv6_identity(bool stable_privacy, Guid port, PKey pkey,
                                         const std::string& machine_id_file = "/etc/machine-id");

}  // namespace ipoib::daemon
