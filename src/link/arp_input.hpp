// What an ARP message that came in means for us (RFC 826, "Packet Reception"; RFC 4391, 9.2).
#pragma once

#include "link/host_addresses.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

enum class ArpVerdict {
  bad_sender,         ///< its addresses are none that a neighbour can have
  duplicate_address,  ///< it claims an address of the host
  probe,              ///< somebody asks whether an address of the host is free (RFC 5227, 2.1)
  request_for_us,
  reply_for_us,
  mention,  ///< for others, or for everybody: it tells what it tells
};

[[nodiscard]] ArpVerdict judge(const wire::Arp& message, const HostAddresses& host,
                               const HwAddress& own);

/// Whether a datagram can be sent there: one port, one queue pair other than QP0 and QP1.
[[nodiscard]] bool is_endpoint(const HwAddress& hardware);

}  // namespace ipoib::link
