// Counters of a link: drops by reason, and events.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ipoib::link {

/// The names are stable, since monitoring uses them. Drops come before kFirstEvent.
enum class Counter : std::uint8_t {
  // Packets of the host.
  drop_link_down,  ///< includes frames that were parked when the link went down
  drop_malformed_packet,
  drop_multicast_not_joined,
  drop_group_limit,         ///< the table of send-only groups is full
  drop_bad_destination,     ///< the destination is unspecified, loopback, or the host's own
  drop_packet_too_big,      ///< over the link's MTU
  drop_path_mtu_exceeded,   ///< over the MTU of the path to this neighbour
  drop_neighbour_failed,    ///< the neighbour did not respond
  drop_neighbour_limit,     ///< the table of neighbours is full
  drop_neighbour_removed,   ///< the entry was deleted or evicted while frames were parked
  drop_unresolved_limit,    ///< too many unresolved neighbours
  drop_solicitation_limit,  ///< the rate of solicitations for new neighbours is exhausted
  drop_path_limit,          ///< the table of paths is full
  drop_path_failed,         ///< the SA gave no path
  drop_parked_limit,        ///< too many bytes are parked for this neighbour
  drop_parked_total_limit,  ///< too many frames are parked in all
  drop_no_route,            ///< no route of the host leads to the destination
  drop_unrouted_limit,      ///< too many packets wait for a route
  drop_parked_fragment,     ///< another fragment of its datagram could not be parked
  // Datagrams of the fabric.
  drop_not_up,  ///< received before the link was up
  drop_malformed_datagram,
  drop_foreign_group,  ///< the host is no member of the group; groups may share an MLID
  drop_unsupported_type,
  drop_malformed_arp,
  drop_bad_arp_sender,     ///< no neighbour can have the address
  drop_duplicate_address,  ///< an ARP message of another node claims an address of the host
  drop_malformed_nd,
  drop_false_qpn,          ///< ARP or ND: claims another QPN than that of its sender
  drop_false_gid,          ///< ARP or ND: claims another GID than that of its GRH
  drop_pinned_gid,         ///< ARP or ND: claims another GID than the pinned one
  drop_unsolicited_reply,  ///< an ARP reply that nobody has asked for
  drop_locked_address,     ///< ARP: claims another address than one that was learnt a moment ago
  drop_reply_limit,        ///< replies beyond those that may wait for a path
  drop_source_limit,       ///< ARP or ND of a port that names new GIDs faster than one port may
  drop_paths_pending,  ///< ARP or ND: too many neighbours wait for a path that the host does not
                       ///< use
  // Messages of the daemon.
  drop_no_frame,  ///< no free frame for an ARP or ND message, or for fragments
  // Events.
  kFirstEvent,
  tx_packets = kFirstEvent,  ///< IP packets of the host
  rx_packets,                ///< IP packets for the host
  packets_fragmented,        ///< IPv4 packets that exceed an MTU, and may be fragmented
  too_big_answers,           ///< ICMP messages to the host about packets that exceed an MTU
  unreachable_answers,       ///< ICMP messages to the host: no route, or a silent next hop
  route_waits,               ///< packets that no route covered at first
  icmp_errors_withheld,      ///< not sent because of the rate limit
  arp_received,
  arp_requests_broadcast,
  arp_requests_unicast,
  arp_replies_sent,
  arp_route_lookups,  ///< ARP requests for which the host's routes were looked up
  arp_ignored,        ///< ARP requests for the host that its policy ignores
  arp_limited,        ///< ARP requests beyond the rate limit of look-ups, or of replies to probes
  nd_received,
  nd_solicitations_multicast,
  nd_solicitations_unicast,
  announcements_sent,
  announcements_skipped,   ///< more addresses at a time than the limit
  solicitations_withheld,  ///< delayed or dropped by the rate limit
  neighbours_created,
  neighbours_evicted,  ///< to make room
  index_collisions,    ///< new neighbours and paths whose buckets in the index were full
  neighbour_address_changes,
  path_requests,
  path_responses,
  path_failures,
  paths_evicted,  ///< to make room
  path_reports,   ///< the SA reported that the port of a known path came into or out of service
  path_lid_mismatches,  ///< a neighbour sends from another LID than its path's
  address_handle_refusals,
  join_requests,
  join_failures,
  groups_missing,         ///< joins to send only that were refused because the group does not exist
  memberships_lost,       ///< found missing by a lookup, and joined again
  groups_evicted,         ///< to make room
  host_groups_left_out,   ///< groups of the host beyond the limit
  multicast_by_routers,   ///< packets sent to all routers because their group does not exist
  multicast_unheard,      ///< packets of the host to a group that does not exist: nobody listens
  multicast_looped_back,  ///< datagrams of the interface itself, which come back to each sender
  carrier_losses,
  dhcp_requests_rewritten,    ///< of the host's clients, to the form of RFC 4390
  dhcp_replies_rewritten,     ///< back to the form of the request
  dhcp_requests_mended,       ///< of other hosts, with the broadcast flag added
  dhcp_left_alone,            ///< malformed, authenticated, or without room for the changes
  dhcp_transactions_evicted,  ///< more clients at a time than the limit
  kCount,
};
inline constexpr std::size_t kCounterCount = static_cast<std::size_t>(Counter::kCount);

[[nodiscard]] constexpr bool is_drop(Counter counter) { return counter < Counter::kFirstEvent; }
/// The enumerator as text.
[[nodiscard]] std::string_view name(Counter counter);

class Counters {
 public:
  void add(Counter counter, std::uint64_t count = 1) {
    values_[static_cast<std::size_t>(counter)] += count;
  }
  [[nodiscard]] std::uint64_t operator[](Counter counter) const {
    return values_[static_cast<std::size_t>(counter)];
  }
  Counters& operator+=(const Counters& other) {
    std::ranges::transform(values_, other.values_, values_.begin(), std::plus());
    return *this;
  }

 private:
  std::array<std::uint64_t, kCounterCount> values_{};
};

}  // namespace ipoib::link
