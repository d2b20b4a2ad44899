// The source of an interface's IPv6 addresses.
#pragma once

#include <optional>
#include <string>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::daemon {

/// At most one member is set.
struct Ipv6Identity {
  std::optional<Ipv6Address> link_local = {};     ///< from the port's GUID (RFC 4391, 8)
  std::optional<Ipv6Address> stable_secret = {};  ///< for opaque identifiers (RFC 7217; RFC 8064)
};

/// The link-local address for a partition of a port. Attempt 0 has the interface identifier of RFC
/// 4391, 8. Each further one has another identifier, always the same ones for a port and partition,
/// for the case that the address before has another owner: the same port and partition may have
/// several interfaces.
[[nodiscard]] Ipv6Address link_local_of(Guid port, PKey pkey, unsigned attempt = 0);

/// Returns the identity for a partition of a port on this machine. The secret is the same after
/// each start, differs for each machine, port and partition, and reveals none of them. Throws
/// std::runtime_error if `stable_privacy` is set and the machine id cannot be read.
[[nodiscard]] Ipv6Identity ipv6_identity(bool stable_privacy, Guid port, PKey pkey,
                                         const std::string& machine_id_file = "/etc/machine-id");

}  // namespace ipoib::daemon
