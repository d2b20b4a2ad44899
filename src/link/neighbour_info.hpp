// A neighbour entry as the administrator sees it; a value, detached from the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"

namespace ipoib::link {

/// The states of docs/states.md, "Neighbour".
enum class NeighbourState : std::uint8_t {
  incomplete,  ///< asked for by broadcast; no address yet
  resolving,   ///< address known, path asked for
  reachable,
  stale,
  delay,
  probing,
  failed,
  permanent,
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(NeighbourState state);

struct PathInfo {
  Lid dlid;
  ServiceLevel sl;
  std::uint32_t mtu = 0;  ///< of the fabric, octets
  std::uint8_t rate = 0;  ///< IBA code; wire::rate_mbps
  bool refreshing = false;
};

struct NeighbourInfo {
  IpAddress address;
  NeighbourState state = NeighbourState::incomplete;
  std::optional<HwAddress> hardware;
  std::optional<PathInfo> path;
  Duration idle{};               ///< since its last use by a packet
  std::uint32_t references = 0;  ///< to its address handle: the path, and posted sends
  std::uint32_t parked = 0;      ///< frames waiting
};

/// Where a listing goes on; {} is the beginning.
struct NeighbourCursor {
  std::uint32_t bucket = 0;
};

/// One page of a listing. An entry that exists during the whole listing is in exactly one page;
/// there is no order.
struct NeighbourPage {
  std::vector<NeighbourInfo> entries;
  std::optional<NeighbourCursor> next;  ///< nothing: that was the last page
};

}  // namespace ipoib::link
