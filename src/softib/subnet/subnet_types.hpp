// What of a Subnet is to be seen from outside: nodes, groups, what changed.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "softib/core/fabric_types.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/partition.hpp"

namespace softib::subnet {

/// Who manages the subnet: assigns LIDs, makes partitions, fills the switch's tables.
enum class Management : std::uint8_t {
  own,         ///< the subnet itself, with an SM and SA at node 0
  external_sm  ///< a subnet manager on one of the HCAs; node 0 is the switch
};

/// Whether a process on a node says that it is a subnet manager.
using IsManager = std::function<bool(NodeIndex)>;

struct SubnetConfig {
  Management management = Management::own;
  std::vector<Partition> partitions{default_partition()};
  /// IBA code: of the ports, and of groups whose partition says nothing; managed elsewhere, what
  /// ports can do.
  std::uint8_t mtu = 4;
  std::uint8_t lmc = 0;    ///< of the ports of HCAs that are added, at most ipoib::kMaxLmc
  std::uint64_t seed = 0;  ///< GUIDs are made from it and the name of the node
};

/// LID of the switch.
inline constexpr Lid kSwitchLid{0xbfff};
inline constexpr const char* kSmName = "softib-sm";
inline constexpr const char* kSwitchName = "softib-switch";
/// What a switch can have; nodes beyond it are on the subnet, but on no port that has a number.
inline constexpr std::size_t kMaxSwitchPorts = 254;

/// The M_Key of a port (IBA 14.2.4): who manages it has to know that. It is not published.
struct ManagementKey {
  std::uint64_t value = 0;      ///< 0: none
  std::uint8_t protection = 0;  ///< what others may read: from 2 on nothing, 1: not the key

  [[nodiscard]] bool admits(std::uint64_t key) const { return value == 0 || key == value; }
};

struct Node {
  std::string name;  ///< 1 to kMaxNodeName octets
  PortAttributes port;
  ManagementKey key{};
};

/// A multicast group as everybody forwards by it.
struct GroupForwarding {
  Gid mgid;           ///< zero: no group has this MLID
  NodeSet receivers;  ///< members that receive (not those that only send)
  friend bool operator==(const GroupForwarding&, const GroupForwarding&) = default;
};
[[nodiscard]] constexpr std::size_t group_index(Lid mlid) {
  return std::size_t{mlid.value()} - ipoib::kFirstMulticastLid.value();
}
[[nodiscard]] constexpr Lid group_lid(std::size_t index) {
  return Lid(static_cast<std::uint16_t>(ipoib::kFirstMulticastLid.value() + index));
}

/// What must survive the subnet's process, and no more.
struct SubnetSnapshot {
  struct NodeEntry {
    NodeIndex index = 0;
    Node node;
  };
  struct GroupEntry {
    Lid mlid;
    GroupForwarding forwarding;
  };
  struct RouteEntry {
    Lid lid;
    NodeIndex node = 0;
  };
  std::vector<NodeEntry> nodes;
  std::vector<RouteEntry> routes;
  std::vector<GroupEntry> groups;
};

/// What a publisher has to write again. A node that changed may be gone, or have another LID.
struct SubnetChanges {
  NodeSet nodes;
  LidSet lids;                     ///< that lead elsewhere
  std::bitset<kMaxGroups> groups;  ///< by group_index(mlid)

  [[nodiscard]] bool any() const { return nodes.any() || lids.any() || groups.any(); }
};

/// A group with what its members agreed on, for people.
struct GroupView {
  struct Member {
    NodeIndex node = 0;
    std::uint8_t join_state = 0;  ///< OR of ipoib::wire::McMemberRecord::JoinState
    bool proxy = false;           ///< joined by another port
  };
  Gid mgid;
  Lid mlid;
  PKey pkey;
  QKey qkey;
  std::uint8_t mtu = 0;   ///< IBA code
  std::uint8_t rate = 0;  ///< IBA code
  ServiceLevel sl;
  bool permanent = false;  ///< made beforehand: stays without members
  std::vector<Member> members;
  NodeSet receivers;  ///< as forwarded by, with those who may still join again
};

}  // namespace softib::subnet
