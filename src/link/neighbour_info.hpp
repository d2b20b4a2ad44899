// What a link shows to its administrator: neighbour entries, groups; values, detached from tables.
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
  std::uint32_t mtu = 0;     ///< of the InfiniBand payload, octets
  std::uint8_t rate = 0;     ///< IBA code; see wire::rate_mbps
  bool in_question = false;  ///< in use, and to be asked for again
};

struct NeighbourInfo {
  IpAddress address;
  NeighbourState state = NeighbourState::incomplete;
  std::optional<HwAddress> hardware;
  std::optional<PathInfo> path;
  std::optional<Duration> used;       ///< age of the last use for a packet; none: never
  std::optional<Duration> confirmed;  ///< age of the last proof that it lives; none: never
  std::uint32_t references = 0;       ///< to its address handle: its path, and posted sends
  std::uint32_t parked = 0;           ///< frames that wait
};

/// Where a listing goes on; {} is the beginning.
struct NeighbourCursor {
  std::uint32_t place = 0;
};

/// One page of a listing. An entry that exists during the whole listing is in exactly one page;
/// there is no order.
struct NeighbourPage {
  std::vector<NeighbourInfo> entries;
  std::optional<NeighbourCursor> next;  ///< nothing: that was the last page
};

/// How we are in a group.
enum class GroupState : std::uint8_t {
  absent,  ///< not in it: the link is not up
  joining,
  full,       ///< FullMember: we receive
  send_only,  ///< SendOnlyNonMember: we only send
  missing,    ///< the host has sent to it, but there is no such group
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(GroupState state);

struct GroupInfo {
  Gid mgid;
  Lid mlid;  ///< 0 unless joined
  GroupState state = GroupState::joining;
  std::uint32_t parked = 0;            ///< frames that wait
  std::optional<IpAddress> address{};  ///< none where the MGID does not say which
};

/// The states of docs/states.md, "Bring-up".
enum class LinkState : std::uint8_t {
  port_down,
  no_subnet_manager,
  no_pkey,
  joining,
  up,
  stopped,
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(LinkState state);

}  // namespace ipoib::link
