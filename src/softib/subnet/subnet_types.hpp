// Types of the interface of Subnet: nodes, groups, changes.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "softib/core/node_addresses.hpp"
#include "softib/subnet/lane_tables.hpp"
#include "softib/subnet/route.hpp"
#include "softib/subnet/subnet_config.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {

/// Returns whether an SM runs on a node.
using IsManager = std::function<bool(NodeIndex)>;

/// The LID of the first switch if the subnet has its own SM; the other switches have those below.
inline constexpr Lid kSwitchLid{0xbfff};
inline constexpr const char* kSmName = "softib-sm";
/// The HCA of a RoCE port.
inline constexpr const char* kRoceName = "roce";
/// The switch of a subnet without a topology.
inline constexpr const char* kSwitchName = "softib-switch";
/// Maximum number of ports of a switch that management packets can name (IBA 18.2.1).
inline constexpr SwitchPort kMaxNumberedPort = 254;

/// The M_Key of a port (IBA 14.2.4), which an SM must know. It is not in the fabric file.
struct ManagementKey {
  std::uint64_t value = 0;      ///< 0: none
  std::uint8_t protection = 0;  ///< 0: others may read all, 1: all but the key, 2 and 3: nothing

  [[nodiscard]] bool admits(std::uint64_t key) const { return value == 0 || key == value; }
};

/// Node::other_port of an HCA with one cable: node 0 is no port of an HCA with two.
inline constexpr NodeIndex kNoOtherPort = kSubnetNode;

/// Orders ports of switches.
struct AttachmentOrder {
  [[nodiscard]] bool operator()(const Attachment& a, const Attachment& b) const {
    return std::tie(a.switch_index, a.port) < std::tie(b.switch_index, b.port);
  }
};
using Attachments = std::set<Attachment, AttachmentOrder>;
/// 4.096 us * 2^18, about a second: OpenSM's default for SubnetTimeOut and packet lifetime.
inline constexpr std::uint8_t kSubnetTimeout = 18;
inline constexpr ipoib::wire::PortInfo::Tuning kUsualTuning{.subnet_timeout = kSubnetTimeout};

/// A port of an HCA that has a cable, or a switch with its port 0.
struct Node {
  std::string name;  ///< of the HCA or the switch, 1 to kMaxNodeName bytes
  PortAttributes port;
  Attachment attachment{};                    ///< of an HCA's port
  NodeIndex other_port = kNoOtherPort;        ///< of the same HCA, if that has a cable, too
  std::optional<SwitchIndex> switch_index{};  ///< of a switch
  CheckSet checks = kNoChecks;                ///< of what an HCA sends, where it enters its switch
  std::string description{};                  ///< NodeDescription; empty: the name
  ManagementKey key{};
  LaneTables lanes{};                                   ///< not in the fabric file, as the key
  ipoib::wire::PortInfo::Tuning tuning = kUsualTuning;  ///< likewise
  std::vector<IpAddress> addresses{};  ///< in addition to address_of(); at most kMaxNodeAddresses
};

/// The node of the first port of the HCA that node `index` is a port of. Processes on the HCA have
/// their slots there.
[[nodiscard]] inline NodeIndex hca_of(NodeIndex index, const Node& node) {
  return node.other_port != kNoOtherPort && node.port.number > 1 ? node.other_port : index;
}

/// The name of the HCA, with the number of the port if two of its ports have cables: a[2].
[[nodiscard]] inline std::string port_name(const Node& node) {
  return node.other_port == kNoOtherPort ? node.name
                                         : node.name + '[' + std::to_string(node.port.number) + ']';
}

/// Errors of a link that a port reports (IBA 7.12.2, 7.9.4), in the order of traps 129 to 131.
enum class LinkError : std::uint8_t {
  integrity,  ///< more packets with errors than LocalPhyErrors, less those without
  overrun,    ///< the receive buffer was overrun in more periods in a row than OverrunErrors
  watchdog    ///< no flow control update came in time; the link recovers
};
inline constexpr std::size_t kLinkErrors = 3;

/// A port of a switch. Width, speed and MTU are those of a cable to another switch; of the cable to
/// a node, those of the node.
struct ExternalPort {
  Peer peer;
  std::uint8_t width = 2;  ///< IBA LinkWidthActive
  std::uint8_t speed = 4;  ///< IBA LinkSpeedActive
  std::uint8_t mtu = 4;    ///< IBA code
  std::uint8_t operational_vls = 1;
  ipoib::wire::PortInfo::Tuning tuning{};
  /// What the operator has set at this end; a cable is up only if it is plugged in at both ends.
  bool is_plugged_in = true;
  CableFaults faults{};  ///< the same at both ends
  PartitionFilter filter{};
  std::uint32_t links_lost = 0;  ///< how often the cable went down (LinkDowned)
  /// How often each occurred, by LinkError; not in the fabric file.
  std::array<std::uint32_t, kLinkErrors> link_errors{};
};

/// A multicast group as its members want it; with an external SM, only its tables tell.
struct GroupForwarding {
  Gid mgid;           ///< zero: no group has this MLID
  NodeSet receivers;  ///< members except send-only members
  friend bool operator==(const GroupForwarding&, const GroupForwarding&) = default;
};
[[nodiscard]] constexpr std::size_t group_index(Lid mlid) {
  return std::size_t{mlid.value()} - ipoib::kFirstMulticastLid.value();
}
/// Whether a group can have this LID.
[[nodiscard]] constexpr bool is_group(Lid mlid) {
  return ipoib::is_multicast(mlid) && group_index(mlid) < kMaxGroups;
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
  struct SwitchEntry {
    Node node;
    std::vector<ExternalPort> ports;  ///< by number; entry 0 is not used
    LinearForwardingTable routes;
    MulticastForwardingTable groups;
  };
  std::vector<NodeEntry> nodes{};
  std::vector<SwitchEntry> switches{};
  std::vector<GroupEntry> groups{};
};

/// What has changed in a switch.
struct SwitchChanges {
  SwitchIndex index = 0;
  bool ports = false;
  LidBlocks routes;
  GroupBlocks groups;
};

/// One end of a cable, as an operator names it.
struct CableEnd {
  std::string name;     ///< of a switch or an HCA
  SwitchPort port = 0;  ///< 0: any
};
enum class CableState : std::uint8_t {
  up,
  down,
  flap,  ///< down and up again
  stall  ///< for a moment no flow control update crosses it
};
inline constexpr std::uint16_t kMaxOverruns = 255;
/// What an operator changes of a cable; what is nullopt stays.
struct CableSettings {
  std::optional<std::uint8_t> width{};  ///< IBA LinkWidthActive
  std::optional<std::uint8_t> speed{};  ///< IBA LinkSpeedActive
  std::optional<std::uint16_t> loss{};  ///< as CableFaults
  std::optional<std::uint16_t> delay{};
  /// Lets the receive buffers at both ends be overrun in so many periods of flow control in a row.
  std::optional<std::uint16_t> overruns{};
  friend bool operator==(const CableSettings&, const CableSettings&) = default;
};
/// A switch that is absent has lost its power, and with it its tables; reset is absent and present.
enum class SwitchState : std::uint8_t { present, absent, reset };

/// Records that the publisher must write again. A changed node may have been removed.
struct SubnetChanges {
  NodeSet nodes;
  std::vector<SwitchChanges> switches;
  std::bitset<kMaxGroups> groups;  ///< by group_index(mlid)

  [[nodiscard]] bool any() const { return nodes.any() || !switches.empty() || groups.any(); }
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
