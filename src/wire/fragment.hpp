// Fragments of IP datagrams (RFC 791, 3.1; RFC 8200, 4.5).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

/// What the fragments of a datagram have in common, and those of others do not.
struct FragmentedDatagram {
  IpAddress source;
  IpAddress destination;
  std::uint32_t identification = 0;
  std::uint8_t protocol = 0;  ///< of IPv4; 0 for IPv6, whose identification is unique without

  friend bool operator==(const FragmentedDatagram&, const FragmentedDatagram&) = default;
};

/// The datagram of a fragment; nullopt for a packet that is no fragment, or malformed.
[[nodiscard]] std::optional<FragmentedDatagram> datagram_of(ConstBytes packet);

}  // namespace ipoib::wire
