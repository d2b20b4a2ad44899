// What a received ARP message means for this host (RFC 826, "Packet Reception"; RFC 4391, 9.2).
#pragma once

#include "link/host_addresses.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

enum class ArpKind {
  bad_sender,         ///< no neighbour can have its sender addresses
  duplicate_address,  ///< its sender claims an address of the host
  probe,              ///< asks whether an address of the host is free (RFC 5227, 2.1)
  request_for_us,
  reply_for_us,
  third_party,  ///< for another target; it shows the sender's address
};

[[nodiscard]] ArpKind classify(const wire::Arp& message, const HostAddresses& host,
                               const HwAddress& own);

/// Whether datagrams can be sent to the address: a unicast GID, and not QP0 or QP1.
[[nodiscard]] bool is_endpoint(const HwAddress& hardware);

}  // namespace ipoib::link
