// What a link counts: each drop by its reason, and the events that explain a behaviour.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib::link {

/// Names are stable: they are the interface to monitoring. Drops come before kFirstEvent.
enum class Counter : std::uint8_t {
  // Packets of the host.
  drop_link_down,  ///< also: frames that waited when the link went down
  drop_malformed_packet,
  drop_multicast_not_joined,
  drop_no_group,            ///< multicast that nobody listens to
  drop_group_limit,         ///< no room for another group to send to
  drop_bad_destination,     ///< unspecified, loopback, or the host's own
  drop_packet_too_big,      ///< over the link's MTU
  drop_path_mtu_exceeded,   ///< over the MTU of the path to this neighbour
  drop_neighbour_failed,    ///< no neighbour answers at this address, or none did lately
  drop_neighbour_limit,     ///< no room for another entry
  drop_neighbour_removed,   ///< the entry was deleted or evicted while frames waited
  drop_unresolved_limit,    ///< too many addresses are being asked for
  drop_solicitation_limit,  ///< no question may go soon for one more address
  drop_path_limit,          ///< no room for another path
  drop_path_failed,         ///< the SA gave no path
  drop_parked_limit,        ///< too many frames wait for this neighbour
  drop_parked_total_limit,  ///< too many frames wait for all neighbours
  // Datagrams of the fabric.
  drop_not_up,  ///< came before the link was up
  drop_malformed_datagram,
  drop_own_multicast,  ///< our own, looped back
  drop_foreign_group,  ///< of a group that is not ours; groups may share a LID
  drop_unsupported_type,
  drop_malformed_arp,
  drop_bad_arp_sender,     ///< no address that a neighbour can have
  drop_duplicate_address,  ///< somebody else's ARP claims an address of the host
  drop_malformed_nd,
  // Our own.
  drop_no_frame,  ///< no free frame for an ARP or ND message
  // Events.
  kFirstEvent,
  tx_packets = kFirstEvent,  ///< IP, of the host, handed to the fabric
  rx_packets,                ///< IP, for the host
  too_big_answers,           ///< ICMP messages to the host about packets that did not fit
  arp_received,
  arp_requests_broadcast,
  arp_requests_unicast,
  arp_replies_sent,
  nd_received,
  nd_solicitations_multicast,
  nd_solicitations_unicast,
  announcements_sent,
  announcements_skipped,   ///< more addresses at a time than the bound
  solicitations_withheld,  ///< by the rate limit; their time comes later, or not at all
  neighbours_created,
  neighbours_evicted,  ///< to make room
  neighbour_address_changes,
  path_questions,
  path_answers,
  path_refusals,
  paths_evicted,        ///< to make room
  path_reports,         ///< of the SA: the port of a known path came into service or left it
  path_lid_mismatches,  ///< a neighbour sends from another LID than its path leads to
  address_handle_refusals,
  join_questions,
  join_refusals,
  memberships_lost,      ///< found lost when looked up, and joined again
  groups_evicted,        ///< to make room
  host_groups_left_out,  ///< that the host is in, beyond the bound
  multicast_by_routers,  ///< packets sent to all routers, for want of a group of their own
  carrier_losses,
  dhcp_requests_rewritten,    ///< of the host's clients, to the form of RFC 4390
  dhcp_replies_rewritten,     ///< back to the form that these clients know
  dhcp_requests_mended,       ///< of others, to be answered by broadcast
  dhcp_left_alone,            ///< malformed, authenticated, or without room for what is to be added
  dhcp_transactions_evicted,  ///< by more clients at a time than the bound
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

 private:
  std::array<std::uint64_t, kCounterCount> values_{};
};

}  // namespace ipoib::link
