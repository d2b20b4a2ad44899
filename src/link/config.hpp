// Everything that can be tuned in a link, and every bound of what it keeps.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "ipoib/address.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/time.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

/// What the broadcast group is created with, where that is allowed (RFC 4391, 5 and 10). The
/// defaults are those of OpenSM.
struct GroupCreation {
  bool allowed = false;
  QKey qkey{0x0b1b};
  std::uint8_t mtu = 4;   ///< IBA code: 2048
  std::uint8_t rate = 3;  ///< IBA code: 10 Gb/s
  ServiceLevel sl;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
};

/// Neighbour ageing, in the words of RFC 4861, 10.
struct Ageing {
  Duration reachable = std::chrono::seconds(30);  ///< base: each time 0.5 to 1.5 of it
  Duration delay = std::chrono::seconds(5);       ///< from the use of a stale entry to its probe
  Duration retransmit = std::chrono::seconds(1);  ///< between two questions for one address
  std::uint8_t unicast_probes = 3;                ///< to the known address
  std::uint8_t broadcast_probes = 3;              ///< then, and for an unknown address
  Duration negative = std::chrono::seconds(5);    ///< how long a failure is remembered
  Duration idle = std::chrono::minutes(20);       ///< a stale entry is forgotten after that
  std::uint8_t announcements = 2;                 ///< of an address, when it is new
  Duration announce_interval = std::chrono::seconds(2);
};

struct PathTimes {
  Duration refresh = std::chrono::minutes(15);  ///< age at which a path in use is asked for again
  Backoff negative;  ///< no question to the SA for so long after it refused a path
  Duration mismatch_interval =
      std::chrono::seconds(5);  ///< between requests because of a source LID
};

/// Bounds. Going over one drops or evicts, and counts.
struct Limits {
  std::size_t neighbours = 16384;
  std::size_t unresolved = 2048;          ///< neighbours without an address, asked for
  std::size_t parked_per_neighbour = 16;  ///< frames
  std::size_t parked = 512;               ///< frames in all; less than the pool has
  /// Octets of these frames, so that some large ones are left to go on with.
  std::size_t parked_bytes_per_neighbour = std::size_t{512} << 10;
  std::size_t parked_bytes = std::size_t{3} << 20;
  std::size_t paths = 16384;
  std::size_t path_requests = 16;    ///< outstanding at the SA; the others wait their turn
  std::size_t host_groups = 1024;    ///< that the host is in
  std::size_t send_groups = 1024;    ///< that it only sends to
  std::size_t group_requests = 16;   ///< outstanding at the SA for the latter
  std::size_t announcements = 1024;  ///< addresses being announced at a time
  /// Questions for an address that more than its owner hear, a second: half of them for new
  /// neighbours, a quarter to ask for these again, a quarter for neighbours that answered once, so
  /// that they do not starve.
  std::uint32_t solicitations = 1000;
};

/// All durations are positive.
struct Config {
  PKey pkey = kDefaultPKey;
  std::uint8_t scope = wire::kLinkLocalScope;
  GroupCreation creation;
  Backoff join_backoff;  ///< with jitter
  /// How often memberships are looked up: another user of the port may have left for all.
  Duration membership_check = std::chrono::minutes(2);
  /// A group that the host only sends to is left when it has sent nothing for so long.
  Duration send_only_idle = std::chrono::minutes(4);
  /// How long a group that does not exist is not asked for again, unless a notice tells of it.
  Duration missing_group = std::chrono::seconds(5);
  bool dhcp_rewrite = true;  ///< to RFC 4390 and back
  Ageing ageing;
  PathTimes path;
  Limits limits;
};

}  // namespace ipoib::link
