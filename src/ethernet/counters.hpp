// Counters of the Ethernet view, and of the stations behind it.
#pragma once

#include <cstdint>

namespace ipoib::ethernet {

struct Counters {
  std::uint64_t requests = 0;       ///< of the host for the MAC of a neighbour
  std::uint64_t answers = 0;        ///< of the view to such requests
  std::uint64_t announcements = 0;  ///< to the host of neighbours with another hardware address
  std::uint64_t drop_stp = 0;       ///< spanning tree, of a bridge
  std::uint64_t drop_lldp = 0;
  std::uint64_t drop_vlan = 0;  ///< with the tag of a VLAN that is not mapped, or with two tags
  std::uint64_t drop_type = 0;  ///< neither IP nor ARP, nor one of those above
  std::uint64_t drop_destination = 0;  ///< for a MAC that is not on the link: flooded by a bridge
  std::uint64_t drop_source = 0;  ///< from a MAC of the link: sent back by a loop behind the TAP
  std::uint64_t drop_malformed_arp = 0;
  std::uint64_t drop_request_limit = 0;
  std::uint64_t drop_no_frame = 0;  ///< no buffer was free for an answer
  friend bool operator==(const Counters&, const Counters&) = default;
};

/// Why a frame of a station is dropped, or nothing is learnt from it.
struct StationCounters {
  std::uint64_t evicted = 0;             ///< addresses that were not confirmed, to make room
  std::uint64_t address_limit = 0;       ///< addresses that were not learnt: too many, or too fast
  std::uint64_t request_limit = 0;       ///< of the fabric, beyond those that wait for an answer
  std::uint64_t drop_station_limit = 0;  ///< frames of stations beyond --ethernet-stations
  std::uint64_t drop_address = 0;        ///< frames from addresses that belong to somebody else
  std::uint64_t drop_budget = 0;         ///< broadcasts and requests beyond the budget of a station
  std::uint64_t drop_group = 0;          ///< multicasts to more new groups than its budget
};

}  // namespace ipoib::ethernet
