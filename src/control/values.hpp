// Values of the control protocol: neighbour entries, counters, the interface.
//
// The daemon fills these in and the client library reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/counter.hpp"
#include "control/port_info.hpp"
#include "control/station.hpp"
#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"

namespace ipoib::control {

/// The path to a neighbour's port, from its PathRecord.
struct Path {
  Lid dlid;
  ServiceLevel sl;
  std::uint32_t mtu = 0;        ///< bytes of InfiniBand payload, 256 to 4096
  std::uint32_t rate_mbps = 0;  ///< Mb/s; 0: unknown
  friend bool operator==(const Path&, const Path&) = default;
};

/// How to reach the port of an IP address.
struct Resolution {
  IpAddress address;
  HwAddress hardware;  ///< of the neighbour
  Path path;           ///< to its port
  Gid source_gid;      ///< of the port that serves the interface, where the path begins
  Lid source_lid;
  PKey pkey;  ///< of the interface
  // Fields of the path, as in its PathRecord.
  std::uint8_t rate = 0;                      ///< IBA code
  std::optional<std::uint8_t> lifetime = {};  ///< code; none: not known, after a takeover
  std::uint8_t hop_limit = 0;                 ///< 0: no global route
  friend bool operator==(const Resolution&, const Resolution&) = default;
};

/// One neighbour.
struct Entry {
  IpAddress address;
  std::string state;  ///< as in docs/states.md: "reachable", ...; "pinned": a pin without entry
  std::optional<HwAddress> hardware;   ///< none before it is resolved
  std::optional<Path> path;            ///< none before the SA has responded
  Duration idle{};                     ///< since a packet last used it
  std::uint64_t uses = 0;              ///< packets of the host to it; a large packet counts as one
  std::uint32_t references = 0;        ///< to its address handle, by the path and posted sends
  std::uint32_t waiting = 0;           ///< frames parked until it is resolved
  std::optional<Gid> pinned = {};      ///< the only GID that it may have
  std::optional<MacAddress> mac = {};  ///< the MAC that the host uses for it; only on a TAP
  friend bool operator==(const Entry&, const Entry&) = default;
};

/// A page of the cache, unordered. An entry that exists during the whole listing is in some page.
struct EntryPage {
  std::vector<Entry> entries;
  std::optional<std::uint64_t> next;  ///< cursor of the next page; none after the last page
  friend bool operator==(const EntryPage&, const EntryPage&) = default;
};

/// A multicast group that the interface is in or wants to be in.
struct Group {
  Gid mgid;
  Lid mlid;
  std::string membership;  ///< "full", "routed", "send-only", "joining", "missing" or "absent"
  std::optional<IpAddress> address{};  ///< of the IP group, if known
  std::uint32_t waiting = 0;           ///< frames parked until it is joined
  friend bool operator==(const Group&, const Group&) = default;
};

/// A port that is a member of a multicast group, according to the SA.
struct Member {
  Gid port;
  std::uint8_t join_state = 0;  ///< JoinState bits of the MCMemberRecord (IBA 15.2.5.17)
  friend bool operator==(const Member&, const Member&) = default;
};

/// The interface and the state of its bring-up.
struct InterfaceInfo {
  std::string interface;
  std::string device;  ///< RDMA device that serves it
  std::uint8_t port = 0;
  PKey pkey;
  QKey qkey;  ///< of the broadcast group; 0 before it is joined, and for those who may only read
  Qpn qpn;    ///< 0 before there is a queue pair
  Gid gid;
  Lid lid;
  Lid sm_lid;                  ///< of the subnet manager; 0: none, or RoCE
  std::uint32_t mtu = 0;       ///< bytes of an IP packet; 0 before the broadcast group is joined
  std::uint32_t host_mtu = 0;  ///< of the network interface; 0: unknown
  std::uint32_t port_mtu = 0;  ///< bytes of the payload that the port's link carries; 0: unknown
  std::uint32_t port_rate_mbps = 0;   ///< of the port's link; 0: unknown
  std::uint32_t group_rate_mbps = 0;  ///< of the broadcast group; 0: unknown
  std::string membership;   ///< of the partition: "full", "limited"; empty: not in its table
  bool admin_up = true;     ///< the network interface is administratively up
  std::string state;        ///< name of the bring-up state; "up" when it can send
  std::string waiting_for;  ///< what the bring-up waits for, as text; empty when up
  std::string version;      ///< of the daemon
  std::uint32_t pid = 0;
  std::vector<PortInfo> ports;  ///< both, if it has a backup port
  std::vector<Group> groups;
  friend bool operator==(const InterfaceInfo&, const InterfaceInfo&) = default;
};

/// A log module and its level: "trace", "debug", "info", "warning", "error", "critical", "off".
struct ModuleLevel {
  std::string module;
  std::string level;
  friend bool operator==(const ModuleLevel&, const ModuleLevel&) = default;
};

/// One record of a thread's trace ring.
struct TraceLine {
  std::uint64_t sequence = 0;  ///< number of the record in its ring, from 0
  std::string keyword;
  TimePoint when{};
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const TraceLine&, const TraceLine&) = default;
};

/// Part of one ring, from the requested record on.
struct TracePage {
  std::uint32_t rings = 0;  ///< number of rings in the process
  std::string thread;       ///< name of the ring's thread
  std::vector<TraceLine> lines;
  std::uint64_t next = 0;  ///< first record to request next
  std::uint64_t end = 0;   ///< one past the newest record at the time of the response
  friend bool operator==(const TracePage&, const TracePage&) = default;
};

}  // namespace ipoib::control
