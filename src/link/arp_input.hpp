// The meaning of a received ARP message for this host (RFC 826, "Packet Reception"; RFC 4391, 9.2).
#pragma once

#include <cstdint>

#include "link/host_addresses.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

enum class ArpKind {
  bad_sender,         ///< no neighbour can have its sender addresses
  duplicate_address,  ///< its sender claims an address of the interface
  station_address,    ///< its sender claims the address of a station
  probe,              ///< asks whether an address of the host is free (RFC 5227, 2.1)
  probe_of_other,     ///< asks whether another address is free
  request_for_us,     ///< for an address of the host, on this or another interface
  reply_for_us,
  third_party,  ///< for another target; it shows the sender's address
};

[[nodiscard]] ArpKind classify(const wire::Arp& message, const HostAddresses& host,
                               const HwAddress& own);

/// Whether the sender announces its address to all (RFC 5227, 3), as Linux sees it: a reply has to
/// have the sender's address as its target, too.
[[nodiscard]] bool is_announcement(const wire::Arp& message);

enum class ArpAnswer : std::uint8_t {
  none,
  reply,
  ask_routes,   ///< reply if the host's routes permit it: arp_filter, proxy_arp
  ask_proxies,  ///< reply if the host is a proxy for this address, which is not known
};
/// What the host's policy says about a request or probe whose sender is valid.
[[nodiscard]] ArpAnswer answer_to(const wire::Arp& request, const HostAddresses& host);

/// Whether datagrams can be sent to the address: a unicast GID, and not QP0 or QP1.
[[nodiscard]] bool is_endpoint(const HwAddress& hardware);

}  // namespace ipoib::link
