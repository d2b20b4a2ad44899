// Snapshots of a link's neighbours, groups and state for `ibarp`; values without references.
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
  incomplete,  ///< solicited by broadcast; no address yet
  resolving,   ///< address known, path requested
  reachable,
  stale,
  delay,
  probing,
  failed,
  permanent,
  pinned,  ///< no entry: the operator has pinned the address to a GID, and nothing has been sent
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(NeighbourState state);

struct PathInfo {
  Lid dlid;
  ServiceLevel sl;
  std::uint32_t mtu = 0;       ///< of the InfiniBand payload, bytes
  std::uint8_t rate = 0;       ///< IBA code; see wire::rate_mbps
  std::uint8_t lifetime = 0;   ///< of packets, IBA code; kUnknownLifetime
  std::uint8_t hop_limit = 0;  ///< 0: no global route
  bool needs_refresh = false;  ///< the path is in use, but its next use requests it again
};

struct NeighbourInfo {
  IpAddress address;
  NeighbourState state{};
  std::optional<HwAddress> hardware;
  std::optional<Gid> pinned = {};  ///< the only GID that it may have
  std::optional<PathInfo> path;
  std::optional<Duration> used;       ///< time since a packet was sent to it; nullopt: never
  std::uint64_t uses = 0;             ///< packets of the host to it; a large packet counts as one
  std::optional<Duration> confirmed;  ///< time since the last confirmation; nullopt: never
  std::uint32_t references = 0;       ///< to its address handle: by its path and by posted sends
  std::uint32_t parked = 0;           ///< frames that wait
};

/// Where a listing continues; {} is the beginning.
struct NeighbourCursor {
  std::uint64_t position = 0;  ///< a slot of the table; then the pins
};

/// One page of a listing, without an order. An entry that exists during the whole listing is in
/// exactly one page.
struct NeighbourPage {
  std::vector<NeighbourInfo> entries;
  std::optional<NeighbourCursor> next;  ///< nullopt: that was the last page
};

/// The membership of the port in a group.
enum class GroupState : std::uint8_t {
  absent,  ///< not a member: the link is not up
  joining,
  full,       ///< FullMember: we receive
  routed,     ///< NonMember: a multicast router on the host receives
  send_only,  ///< SendOnlyNonMember: we only send
  missing,    ///< the host has sent to it, but there is no such group
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(GroupState state);

struct GroupInfo {
  Gid mgid;
  Lid mlid;  ///< 0 unless joined
  GroupState state{};
  std::uint32_t parked = 0;            ///< frames that wait
  std::optional<IpAddress> address{};  ///< nullopt if the MGID does not determine it
};

/// The states of docs/states.md, "Bring-up".
enum class LinkState : std::uint8_t {
  port_down,
  port_polling,
  port_init,
  port_armed,
  no_gid,
  no_subnet_manager,
  no_pkey,
  joining,
  up,
  stopped,
};
/// The enumerator as text; stable.
[[nodiscard]] std::string_view name(LinkState state);

}  // namespace ipoib::link
