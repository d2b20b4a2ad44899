// Settings of an interface: flags, IPv6 address generation, GSO limit and queue length. The IPv6
// functions succeed without effect if the kernel has no IPv6 or it is disabled on the interface.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::linux {

/// Whether the interface exists and is administratively up (IFF_UP).
[[nodiscard]] bool is_up(const std::string& name);

/// Sets accept_dad to the namespace's default: the kernel has disabled it for the TUN, which was
/// created with NOARP.
[[nodiscard]] Result<void> detect_duplicate_addresses(const std::string& name);

/// Stops the kernel from generating a link-local address (addr_gen_mode none).
[[nodiscard]] Result<void> disable_generated_link_local(int interface_index);
[[nodiscard]] Result<void> disable_generated_link_local(nl_sock* socket, int interface_index);

/// Makes the kernel derive the interface identifiers from this secret (RFC 7217; RFC 8064).
[[nodiscard]] Result<void> set_stable_secret(const std::string& name, const Ipv6Address& secret);

/// Limits the packets that the kernel passes to us to so many segments (gso_max_segs).
[[nodiscard]] Result<void> set_max_segments(int interface_index, std::uint32_t segments);

/// Limits the packets that the kernel queues for us (txqueuelen).
[[nodiscard]] Result<void> set_queue_length(int interface_index, std::uint32_t packets);

/// The current name of the interface with this alternative name (altname in ip-link(8)). nullopt if
/// there is none, or the kernel has no alternative names (before Linux 5.5).
[[nodiscard]] std::optional<std::string> name_of_alternative(const std::string& alternative);

struct AlternativeName {
  std::string interface;  ///< its current name
  std::string alternative;
};
/// All alternative names in the network namespace of the calling thread.
[[nodiscard]] Result<std::vector<AlternativeName>> alternative_names();

/// Gives an interface an alternative name, which it keeps when it is renamed or moved to another
/// network namespace.
[[nodiscard]] Result<void> add_alternative_name(int interface_index,
                                                const std::string& alternative);

}  // namespace ipoib::linux
