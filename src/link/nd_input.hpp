// What a received Neighbour Discovery message says about a neighbour (RFC
// 4861, 6.2.6, 6.3.4, 7.2.3, 7.2.5 and 8.3).
#pragma once

#include <optional>

#include "link/host_addresses.hpp"
#include "link/neighbour_dependencies.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {

struct NeighbourUpdate {
  Ipv6Address neighbour;
  std::optional<HwAddress> hardware;  ///< nullopt confirms the known address
  Evidence evidence = Evidence::unconfirmed;
  bool creates_entry = true;  ///< false: only updates an existing entry
  bool overrides = true;      ///< false: does not replace a known address
};

/// The link-layer address that the sender says `neighbour` has, which is its own.
struct NeighbourClaim {
  Ipv6Address neighbour;
  HwAddress hardware;
};

/// Returns nullopt if the message says nothing about its sender. The address in a redirect is that
/// of another node, so it is no claim.
[[nodiscard]] std::optional<NeighbourClaim> claim_in(const wire::NdMessage& message);

/// Returns nullopt if the message has no valid information about a neighbour.
[[nodiscard]] std::optional<NeighbourUpdate> neighbour_update(const wire::NdMessage& message,
                                                              const HostAddresses& host,
                                                              const HwAddress& own);

}  // namespace ipoib::link
