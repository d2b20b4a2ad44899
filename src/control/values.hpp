// What the control protocol speaks of, as values: neighbour entries, counters, the interface.
//
// The daemon fills these in and the client library reads them; JSON is seen by protocol.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"

namespace ipoib::control {

/// The way to a neighbour's port, from its PathRecord.
struct Path {
  Lid dlid;
  ServiceLevel sl;
  std::uint32_t mtu = 0;        ///< octets of the InfiniBand payload, 256 to 4096
  std::uint32_t rate_mbps = 0;  ///< Mb/s; 0: not known
  friend bool operator==(const Path&, const Path&) = default;
};

/// One neighbour.
struct Entry {
  IpAddress address;
  std::string state;                  ///< as in docs/states.md: "reachable", "permanent", ...
  std::optional<HwAddress> hardware;  ///< none before the first answer
  std::optional<Path> path;           ///< none before the SA answered
  Duration idle{};                    ///< since a packet last used it
  std::uint32_t references = 0;       ///< to its address handle: the path, and posted sends
  std::uint32_t waiting = 0;          ///< frames parked until it is resolved
  friend bool operator==(const Entry&, const Entry&) = default;
};

/// A page of the cache, in no order. Each entry that exists all the while is in one of the pages.
struct EntryPage {
  std::vector<Entry> entries;
  std::optional<std::uint64_t> next;  ///< cursor of the next page; none: this was the last
  friend bool operator==(const EntryPage&, const EntryPage&) = default;
};

/// A counter, named by what it counts: "packets_sent", "path_failed".
struct Counter {
  std::string name;
  std::uint64_t value = 0;
  bool is_drop = false;  ///< it counts packets that were dropped, its name says why
  friend bool operator==(const Counter&, const Counter&) = default;
};

/// A multicast group that the interface is a member of, or would be.
struct Group {
  Gid mgid;
  Lid mlid;
  std::string membership;              ///< "full", "send-only", "joining", "missing" or "absent"
  std::optional<IpAddress> address{};  ///< of the IP group, where it is known
  std::uint32_t waiting = 0;           ///< frames parked until it is joined
  friend bool operator==(const Group&, const Group&) = default;
};

/// A port that is in a multicast group, as the subnet administrator has it.
struct Member {
  Gid port;
  std::uint8_t join_state = 0;  ///< OR of the bits of an MCMemberRecord (IBA 15.2.5.17)
  friend bool operator==(const Member&, const Member&) = default;
};

/// The interface, and how far its bring-up has come.
struct InterfaceInfo {
  std::string interface;
  std::string device;  ///< RDMA device
  std::uint8_t port = 0;
  PKey pkey;
  QKey qkey;  ///< of the broadcast group; 0 before it is joined
  Qpn qpn;    ///< 0 before there is a queue pair
  Gid gid;
  Lid lid;
  std::uint32_t mtu = 0;    ///< octets of an IP packet; 0 before the broadcast group is joined
  std::string state;        ///< name of the bring-up state; "up" when packets flow
  std::string waiting_for;  ///< what the bring-up waits for, for a person; empty when up
  std::string version;      ///< of the daemon
  std::uint32_t pid = 0;
  std::vector<Group> groups;
  friend bool operator==(const InterfaceInfo&, const InterfaceInfo&) = default;
};

/// A module of the log and its level: "trace", "debug", "info", "warning", "error", "off".
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

/// A part of one ring: what is there from the asked record on, and where to go on.
struct TracePage {
  std::uint32_t rings = 0;  ///< how many rings there are; ask for each
  std::string thread;       ///< whose ring this is
  std::vector<TraceLine> lines;
  std::uint64_t next = 0;  ///< record to ask for next
  std::uint64_t end = 0;   ///< one after the newest record at this moment
  friend bool operator==(const TracePage&, const TracePage&) = default;
};

}  // namespace ipoib::control
