// What a message of Neighbour Discovery that came in tells about a neighbour (RFC 4861, 6.2.6,
// 6.3.4, 7.2.3, 7.2.5 and 8.3).
#pragma once

#include <optional>

#include "link/host_addresses.hpp"
#include "link/neighbour_dependencies.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {

struct NdLesson {
  Ipv6Address neighbour;
  /// None: where it is known to be.
  std::optional<HwAddress> hardware;
  Evidence evidence = Evidence::unconfirmed;
  bool makes_entry = true;  ///< else it is for who knows the neighbour already
  bool overrides = true;    ///< else an address that is known stays
};

/// Nothing: it tells nothing of a neighbour, or nothing that can be believed.
[[nodiscard]] std::optional<NdLesson> lesson_of(const wire::NdMessage& message,
                                                const HostAddresses& host, const HwAddress& own);

}  // namespace ipoib::link
