// Settings of an interface: those that decide its IPv6 addresses, and the size of what it carries.
// A kernel without IPv6, and an interface on which it is disabled, are fine everywhere.
#pragma once

#include <string>

#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::host {

/// Has the kernel look for duplicates of the interface's addresses as on other new interfaces of
/// the namespace: it has made a TUN without Neighbour Discovery, and with that without this, for
/// good.
[[nodiscard]] Result<void> detect_duplicate_addresses(const std::string& name);

/// Stops the kernel from giving the interface a random link-local address (addr_gen_mode none).
[[nodiscard]] Result<void> disable_generated_link_local(int interface_index);

/// From this secret the kernel makes the interface's identifier for each prefix (RFC 7217; RFC
/// 8064).
[[nodiscard]] Result<void> set_stable_secret(const std::string& name, const Ipv6Address& secret);

/// The identifier of this address becomes that of addresses of other prefixes, too. False: there is
/// no IPv6 on the interface. To be called again when that, or the interface, has been down: the
/// kernel forgets such an address then.
[[nodiscard]] Result<bool> add_link_local(nl_sock* socket, int interface_index,
                                          const Ipv6Address& address);

/// The kernel hands over no packet that makes more segments than that (gso_max_segs).
[[nodiscard]] Result<void> set_max_segments(int interface_index, std::uint32_t segments);

}  // namespace ipoib::host
