// Types of the interface of Subnet: configuration, nodes, groups, changes.
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

/// Who manages the subnet: assigns LIDs, creates partitions, fills the switch's tables.
enum class Management : std::uint8_t {
  own,         ///< the subnet process, with SM and SA at node 0
  external_sm  ///< a subnet manager on one of the HCAs; node 0 is the switch
};

/// Returns whether an SM runs on a node.
using IsManager = std::function<bool(NodeIndex)>;

/// The MTU that the operator has set for an HCA's port.
struct PortMtu {
  std::string hca;
  std::uint8_t mtu = 0;  ///< IBA code
  friend bool operator==(const PortMtu&, const PortMtu&) = default;
};

struct SubnetConfig {
  Management management = Management::own;
  std::vector<Partition> partitions{default_partition()};
  /// IBA code of the MTU of ports, and of groups unless their partition specifies one. With an
  /// external SM: the maximum MTU of ports.
  std::uint8_t mtu = 4;
  std::uint8_t lmc = 0;       ///< of HCA ports, at most ipoib::kMaxLmc
  bool grh_required = false;  ///< of the ports of HCAs
  std::uint64_t seed = 0;     ///< GUIDs are derived from it and the name of the node
  std::vector<PortMtu> port_mtus;  ///< of HCAs that exist and whose MTU is another; at most kMaxNodes
};

/// LID of the switch.
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
