// Types of the interface of Subnet: nodes, groups, changes.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "softib/core/node_addresses.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/subnet_config.hpp"

namespace softib::subnet {

/// Returns whether an SM runs on a node.
using IsManager = std::function<bool(NodeIndex)>;

/// The LID of the switch.
inline constexpr Lid kSwitchLid{0xbfff};
inline constexpr const char* kSmName = "softib-sm";
inline constexpr const char* kSwitchName = "softib-switch";
/// Maximum number of ports of a switch. Nodes beyond it are on the subnet without a port number.
inline constexpr std::size_t kMaxSwitchPorts = 254;

/// The M_Key of a port (IBA 14.2.4), which an SM must know. It is not in the fabric file.
struct ManagementKey {
  std::uint64_t value = 0;      ///< 0: none
  std::uint8_t protection = 0;  ///< 0: others may read all, 1: all but the key, 2 and 3: nothing

  [[nodiscard]] bool admits(std::uint64_t key) const { return value == 0 || key == value; }
};

struct Node {
  std::string name;  ///< 1 to kMaxNodeName bytes
  PortAttributes port;
  ManagementKey key{};
  std::vector<IpAddress> addresses{};  ///< in addition to address_of(); at most kMaxNodeAddresses
};

/// Forwarding of a multicast group.
struct GroupForwarding {
  Gid mgid;           ///< zero: no group has this MLID
  NodeSet receivers;  ///< members except send-only members
  friend bool operator==(const GroupForwarding&, const GroupForwarding&) = default;
};
[[nodiscard]] constexpr std::size_t group_index(Lid mlid) {
  return std::size_t{mlid.value()} - ipoib::kFirstMulticastLid.value();
}
[[nodiscard]] constexpr Lid group_lid(std::size_t index) {
  return Lid(static_cast<std::uint16_t>(ipoib::kFirstMulticastLid.value() + index));
}

/// The state that must survive the subnet process.
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

/// Records that the publisher must write again. A changed node may have been removed.
struct SubnetChanges {
  NodeSet nodes;
  LidSet lids;                     ///< LIDs with another route
  std::bitset<kMaxGroups> groups;  ///< by group_index(mlid)

  [[nodiscard]] bool any() const { return nodes.any() || lids.any() || groups.any(); }
};

/// A group with its parameters and members, for display.
struct GroupView {
  struct Member {
    NodeIndex node = 0;
    std::uint8_t join_state = 0;  ///< OR of ipoib::wire::McMemberRecord::JoinState
    bool proxy = false;           ///< joined on behalf of the port by another one
  };
  Gid mgid;
  Lid mlid;
  PKey pkey;
  QKey qkey;
  std::uint8_t mtu = 0;   ///< IBA code
  std::uint8_t rate = 0;  ///< IBA code
  ServiceLevel sl;
  bool permanent = false;  ///< exists without members
  std::vector<Member> members;
  NodeSet receivers;  ///< including those of before a restart during kRejoinGrace
};

}  // namespace softib::subnet
