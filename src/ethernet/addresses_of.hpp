// The addresses of an IP packet.
#pragma once

#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::ethernet {

struct Addresses {
  IpAddress source;
  IpAddress destination;
};

/// Returns nullopt if the packet is too short, or not IP. The link or the host checks the rest.
[[nodiscard]] std::optional<Addresses> addresses_of(ConstBytes packet);

/// Whether a host can have the address: unicast, and not the limited broadcast address.
[[nodiscard]] bool is_of_a_host(const IpAddress& address);

}  // namespace ipoib::ethernet
