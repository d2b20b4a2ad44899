// What a link counts: each drop by its reason, and the events that explain a behaviour.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib::link {

/// Names are stable: they are the interface to monitoring. kFirstEvent parts drops from the rest.
enum class Counter : std::uint8_t {
  // Packets of the host that were dropped.
  link_down,
  malformed_packet,
  ipv6_not_supported,
  multicast_not_joined,
  bad_destination,     ///< unspecified, loopback, or the host's own
  packet_too_big,      ///< over the link's MTU
  path_mtu_exceeded,   ///< over the MTU of the path to this neighbour
  neighbour_failed,    ///< no neighbour answers at this address, or none did lately
  neighbour_limit,     ///< no entry for another neighbour
  unresolved_limit,    ///< too many addresses are being asked for
  path_failed,         ///< the SA gave no path
  parked_limit,        ///< too many frames wait for one neighbour
  parked_total_limit,  ///< too many frames wait for all neighbours
  neighbour_removed,   ///< the entry was deleted, replaced or evicted while frames waited
  // Datagrams of the fabric that were dropped.
  malformed_datagram,
  own_multicast,  ///< our own, looped back
  foreign_group,  ///< of a group that shares a LID with one of ours
  not_up,         ///< came before the link was up
  unsupported_type,
  malformed_arp,
  bad_arp_sender,
  duplicate_address,  ///< somebody else's ARP claims an address of the host
  // Drops of our own making.
  no_frame,  ///< no free frame for an ARP message
  address_handle_refused,
  // Events.
  kFirstEvent,
  packets_sent = kFirstEvent,  ///< IP, of the host
  packets_received,            ///< IP, for the host
  arp_received,
  arp_requests_broadcast,
  arp_requests_unicast,
  arp_replies_sent,
  arp_announcements_sent,
  arp_broadcasts_deferred,  ///< by the rate limit
  neighbours_created,
  neighbours_evicted,  ///< to make room
  neighbour_address_changed,
  path_questions,
  path_answers,
  path_refusals,
  paths_evicted,
  path_lid_mismatch,  ///< a neighbour's datagram came from another LID than its path's
  join_questions,
  join_refusals,
  carrier_changes,
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
