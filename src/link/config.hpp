// Settings and limits of a link.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/time.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

/// Bytes of headroom before the packet in frames for Link::from_host().
inline constexpr std::size_t kHeadroom = 4;
/// Bytes of the largest IP packet on any link: the MTU of 4096, without the encapsulation header.
inline constexpr std::uint32_t kMaxIpMtu = 4096 - kHeadroom;
/// Bytes of the largest message that a link creates: a neighbour solicitation.
inline constexpr std::size_t kMessageSize = 92;

/// Parameters to create the broadcast group with, if allowed (RFC 4391, 5 and 10). The defaults are
/// those of OpenSM.
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
  Duration reachable = std::chrono::seconds(30);  ///< base; randomised by a factor of 0.5 to 1.5
  Duration delay = std::chrono::seconds(5);  ///< from the use of a stale entry to its first probe
  Duration retransmit = std::chrono::seconds(1);  ///< between two solicitations of one address
  std::uint8_t unicast_probes = 3;                ///< to the known address
  std::uint8_t broadcast_probes = 3;              ///< after those, and for an unknown address
  Duration negative = std::chrono::seconds(5);    ///< how long a failure is remembered
  /// The interval between solicitations of a failed gateway that another one replaces. It is
  /// `negative` if a packet was sent to the gateway within this time.
  Duration gateway_probe = std::chrono::seconds(30);
  Duration idle = std::chrono::minutes(20);  ///< an unused stale entry is removed after this time
  /// After an address was learnt, ARP messages with another one are ignored, except announcements
  /// and requests to the host: of several replies the first counts. Linux calls this locktime.
  Duration lock_time = std::chrono::seconds(1);
  std::uint8_t announcements = 2;  ///< of each new address
  Duration announce_interval = std::chrono::seconds(2);
};

struct PathTimes {
  Duration refresh = std::chrono::minutes(15);  ///< age at which a path in use is requested again
  Backoff negative;                             ///< pause after a failed path request
  Duration mismatch_interval = std::chrono::seconds(5);  ///< of requests due to a source LID
};

/// Limits of a link. Whatever exceeds a limit is dropped, or evicts something, and is counted.
struct Limits {
  std::size_t neighbours = 16384;
  std::size_t unresolved = 2048;  ///< neighbours without a known hardware address
  /// Bytes of the frames that are parked for one neighbour or group, like unres_qlen_bytes of
  /// Linux. The fragments of the largest datagram need less, at each MTU.
  std::size_t parked_bytes_per_neighbour = 212'992;
  /// The number of packets of each neighbour that may use a quarter of the totals that follow,
  /// which is reserved for them.
  std::size_t parked_first = 16;
  std::size_t parked = 512;  ///< frames in all; less than the pool holds
  /// Bytes in parked frames, limited so that some large frames remain free.
  std::size_t parked_bytes = std::size_t{3} << 20;
  /// Replies to ARP requests and solicitations that wait for a path, in addition to the packets
  /// above.
  std::size_t parked_replies = 128;
  /// Packets that wait for a route, in addition to those above.
  std::size_t unrouted = 64;
  std::size_t unrouted_bytes = std::size_t{512} << 10;
  std::size_t pins = 65536;  ///< addresses that the operator has pinned to a GID
  std::size_t paths = 16384;
  /// Path requests that are outstanding at the SA; further paths wait. A quarter is only for
  /// packets of the host.
  std::size_t path_requests = 16;
  /// Neighbours that wait for a path although the host has not used them, since messages of others
  /// have created them.
  std::size_t pending = 512;
  /// New GIDs per second that the ARP and ND messages of one port may name, and as many at once.
  std::uint32_t paths_per_source = 20;
  /// Groups that the host and its stations are members of. A subnet manager may have as few as
  /// 1,024 multicast LIDs, and give a port half of them.
  std::size_t host_groups = 480;
  std::size_t station_groups = 416;  ///< of these, groups of stations; the host has what they leave
  /// Joins of these groups per second, after as many as `host_groups` at once: a program of any
  /// user can join and leave all the time.
  std::uint32_t host_joins = 100;
  std::size_t send_groups = 1024;    ///< groups that the host only sends to
  std::size_t routed_groups = 1024;  ///< groups that its multicast routers receive
  std::size_t group_requests = 16;   ///< outstanding joins of send-only groups; further groups wait
  std::size_t announcements = 1024;  ///< addresses being announced at a time
  /// Broadcast and multicast solicitations per second: half for new neighbours, a quarter for their
  /// repetitions, a quarter for neighbours that have answered before. Another quarter is for
  /// replies to ARP probes.
  std::uint32_t solicitations = 1000;
  /// ARP requests per second for which the host's routes are looked up.
  std::uint32_t arp_reply_checks = 500;
  /// ARP requests per second that are passed on to stations: as many for known addresses of
  /// stations, and as many for unknown ones.
  std::uint32_t station_requests = 500;
  /// ICMP errors per second about packets of the host, and as many about packets that it forwards.
  std::uint32_t icmp_errors = 1000;
};

/// Settings of a link. All durations are positive.
struct Config {
  PKey pkey = kDefaultPKey;
  /// The scopes in which the broadcast group is searched, in this order: link-local, site,
  /// organization, global. It is created in the first (RFC 4391, 4.1).
  std::vector<std::uint8_t> scopes{wire::kLinkLocalScope, 5, 8, 14};
  GroupCreation creation;
  Backoff join_backoff;  ///< with jitter
  /// How often memberships are checked: another program on the port may have left the group.
  Duration membership_check = std::chrono::minutes(2);
  /// The broadcast group is also checked when no other port has sent to it for this time. On a
  /// large subnet the time is `silence_check_per_lid` for each LID, so that all ports together send
  /// the SA at most 50 such requests a second, if LIDs are dense.
  Duration silence_check = std::chrono::seconds(5);
  Duration silence_check_per_lid = std::chrono::milliseconds(40);
  /// A send-only group is left after this time without a packet.
  Duration send_only_idle = std::chrono::minutes(4);
  Duration missing_group = std::chrono::seconds(5);  ///< after a failed join, without a notice
  /// How long a packet that no route covers waits for one. That is longer than the kernel takes
  /// from a change to its announcement; while changes are known to be missing, it is longer than
  /// reading all routes takes.
  Duration route_wait = std::chrono::milliseconds(5);
  Duration route_wait_unknown = std::chrono::seconds(1);
  bool dhcp_rewrite = true;  ///< to RFC 4390 and back
  /// Drop ARP and ND messages that claim another link-layer address than the sender's.
  bool strict_arp = true;
  Guid dhcp_identity;  ///< the port that names the host's DHCP client; zero: the link's
  bool reports_neighbours = false;  ///< fill Link::known_neighbours()
  bool serves_stations = false;     ///< fill Link::station_requests()
  Ageing ageing;
  PathTimes path;
  Limits limits;
};

}  // namespace ipoib::link
