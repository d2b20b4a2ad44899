// Messages about membership of multicast groups, for those who forward multicast to the hosts of a
// link: reports and leave messages of IGMP (RFC 1112; RFC 2236; RFC 3376, 4.2) and MLD (RFC 2710;
// RFC 3810, 5.2), read without their sources; and queries (RFC 3376, 4.1; RFC 3810, 5.1).
//
//   IGMP  0 type  1 code  2 checksum  4 group (RFC 3376: reports have the number of records at 6)
//   MLD   0 type  1 code  2 checksum  4 delay, reserved (reports: number of records at 6)  8 group
//   record  0 type  1 auxiliary words  2 number of sources  4 group, sources, auxiliary data
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

struct GroupMembership {
  IpAddress group;
  bool is_member = false;  ///< false if the host has left
  friend bool operator==(const GroupMembership&, const GroupMembership&) = default;
};

inline constexpr std::size_t kMinGroupRecord = 8;  ///< bytes of a record of IGMPv3

/// Whether a well-formed IP packet is a report or a leave message, or IGMP of another kind. It is
/// cheap, since it is called for each multicast packet.
[[nodiscard]] bool changes_host_groups(ConstBytes packet);
/// What a report or a leave message of a host says; empty for anything else, and for malformed
/// ones. There is at most one membership for each kMinGroupRecord bytes of the packet.
[[nodiscard]] std::vector<GroupMembership> group_memberships(ConstBytes packet);

/// Whether an IP packet is a query of IGMP or MLD.
[[nodiscard]] bool is_group_query(ConstBytes packet);

struct GroupQuery {
  IpAddress source;
  std::optional<IpAddress> group;  ///< of the family of `source`; nullopt: about all groups
  std::uint16_t delay = 100;       ///< tenths of a second that hosts may wait with their reports
  std::uint8_t interval = 125;     ///< seconds until the next one, below 128

  /// The destination: the group, or all nodes.
  [[nodiscard]] IpAddress destination() const;
  static constexpr std::size_t kMaxEmitted = 40 + 8 + 28;
  /// Writes an IP packet of IGMPv3 or MLDv2, and returns its size. `to` has room for kMaxEmitted.
  std::size_t emit(MutableBytes to) const;
};

}  // namespace ipoib::wire
