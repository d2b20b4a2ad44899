// The cache that a link saves for that of the next daemon on the same port and partition: values
// without references. Times are relative, since the clocks of the two need not agree.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"
#include "link/neighbour_info.hpp"
#include "link/path_states.hpp"

namespace ipoib::link {

/// A neighbour with a usable path.
struct SavedNeighbour {
  IpAddress address;
  HwAddress hardware;
  SavedPath path;
  std::optional<Duration> reachable_for = {};  ///< nullopt: not known to be reachable
  std::optional<Duration> used = {};           ///< time since a packet was sent; nullopt: never
  std::uint64_t uses = 0;                      ///< as in NeighbourInfo
  friend bool operator==(const SavedNeighbour&, const SavedNeighbour&) = default;
};

/// Part of a cache. A neighbour that exists during the whole saving is in exactly one page.
struct SavedPage {
  std::vector<SavedNeighbour> neighbours;
  std::vector<Gid> send_groups;         ///< that are joined to send to them; in the first page
  std::uint32_t mtu = 0;                ///< bytes of an IP packet; 0 before the first join
  std::optional<NeighbourCursor> next;  ///< nullopt: that was the last page
};

}  // namespace ipoib::link
