// The subnet manager: nodes with their GUIDs, LIDs, port states and P_Key tables, and the switches.
// take_changed() returns which nodes have changed.
//
// With an external SM it assigns nothing: ports and tables have their power-on values until the
// agents write them (set_port() and others), and node 0 is not used.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/subnet/partition.hpp"
#include "softib/subnet/port_values.hpp"
#include "softib/subnet/routing.hpp"
#include "softib/subnet/subnet_types.hpp"
#include "softib/subnet/switches.hpp"

namespace softib::subnet {

class SubnetManager {
 public:
  explicit SubnetManager(SubnetConfig config);
  SubnetManager(const SubnetManager&) = delete;
  SubnetManager& operator=(const SubnetManager&) = delete;

  /// Takes over the nodes of an earlier subnet process with their index, GUIDs, LID, LMC and port
  /// state, and the state of its switches. Skips nodes whose index, name, GUID or LID is already in
  /// use.
  void adopt(const SubnetSnapshot& before);
  [[nodiscard]] bool has_own_sm() const { return config_.management == Management::own; }
  /// State of a port whose link has come up.
  [[nodiscard]] PortState link_up_state() const {
    return has_own_sm() ? PortState::active : PortState::init;
  }
  /// Adds an HCA, each of whose cables makes it a node, or finds the existing one of that name, and
  /// returns the node of its first port. One that is in no topology has one cable, at its last port
  /// `port`; 0: any port for an existing HCA, the first for a new one. Fails with EINVAL if there
  /// is no such port, or it has no cable.
  [[nodiscard]] ipoib::Result<NodeIndex> add(std::string_view name, std::uint8_t port = 0);
  /// Removes an HCA, given by one of its ports.
  [[nodiscard]] ipoib::Result<void> remove(NodeIndex index);
  /// The nodes that are ports of the same HCA as `index`, which is a node, in the order of ports.
  [[nodiscard]] std::vector<NodeIndex> ports_of_hca(NodeIndex index) const;
  /// The port of the same HCA with another number; null if it has no cable.
  [[nodiscard]] const Node* port_of_hca(const Node& node, unsigned number) const;
  [[nodiscard]] ipoib::Result<void> set_port_state(NodeIndex index, PortState state);
  /// Lets an HCA fail, or recover, given by one of its ports.
  [[nodiscard]] ipoib::Result<void> set_failed(NodeIndex index, bool failed);
  [[nodiscard]] ipoib::Result<void> set_lid(NodeIndex index, Lid lid);
  /// `mtu` is an IBA code, used for paths and for groups joined later.
  [[nodiscard]] ipoib::Result<void> set_mtu(NodeIndex index, std::uint8_t mtu);
  [[nodiscard]] ipoib::Result<void> set_faults(NodeIndex index, const LinkFaults& faults);
  [[nodiscard]] ipoib::Result<void> fail_queue_pairs(NodeIndex index, Qpn qpn);
  [[nodiscard]] ipoib::Result<void> add_address(NodeIndex index, const IpAddress& address);
  [[nodiscard]] ipoib::Result<void> delete_address(NodeIndex index, const IpAddress& address);
  [[nodiscard]] ipoib::Result<void> set_membership(NodeIndex index, PKey pkey, Membership as);
  /// Removes a partition and its key from all ports.
  [[nodiscard]] ipoib::Result<void> delete_partition(PKey pkey);
  /// Moves a partition's key to index `to` of the port's table, exchanging it with the entry there.
  /// A real SM may do so whenever it writes the table.
  [[nodiscard]] ipoib::Result<void> move_pkey(NodeIndex index, PKey pkey, std::size_t to);
  /// Writes by an external SM.
  void set_port(const Node& node, const PortAttributes& port);
  void set_m_key(const Node& node, const ManagementKey& key) { writable(node).key = key; }
  [[nodiscard]] LaneTables& lanes(const Node& node) { return writable(node).lanes; }
  /// Sets the width and speed of a cable, both IBA codes of active ones. Returns whether it has
  /// changed.
  bool set_link(const Attachment& at, std::optional<std::uint8_t> width,
                std::optional<std::uint8_t> speed);
  /// To be called after a change of what a port of a switch checks, or of the faults of its cable.
  void checks_changed(const Attachment& at);
  [[nodiscard]] ipoib::wire::PortInfo::Tuning& tuning(const Node& node) {
    return writable(node).tuning;
  }
  /// Writes all unicast routes again, for the own SM: to be called after cables between switches
  /// have changed. The caller routes the groups, whose receivers it knows.
  void reroute();
  /// Lets a switch lose its power, or start again without what an external SM has written.
  void set_present(SwitchIndex index, bool present);
  /// Routes a multicast LID to these nodes; for the own SM.
  void route_group(std::size_t group, const NodeSet& receivers);
  [[nodiscard]] Switches& switches() { return switches_; }
  [[nodiscard]] const Switches& switches() const { return switches_; }
  /// Asks the clients of every HCA, or of one, to register again (IBA 14.4.11).
  void request_reregistration();
  void request_reregistration(NodeIndex index);
  /// Whether cables lead from the subnet's own SM to the switch that `node` is, or is connected to.
  [[nodiscard]] bool is_reached(const Node& node) const;

  [[nodiscard]] const Node* node(NodeIndex index) const;
  [[nodiscard]] const Node* node(std::optional<NodeIndex> index) const {
    return index ? node(*index) : nullptr;
  }
  /// The first port of the HCA with this name.
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  [[nodiscard]] std::optional<NodeIndex> find(Guid port_guid) const;
  /// The node that has the LID.
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// The node that a MAD is for: by its DLID, or on Ethernet by the GID; null if there is none.
  [[nodiscard]] const Node* node_of(const MadPacket& packet) const;
  /// The switch that has the LID.
  [[nodiscard]] const Switch* switch_at(Lid lid) const;
  /// All ports visible to an SM: the nodes whose port is not down, by index, and the switches, as
  /// far as the own SM reaches them.
  [[nodiscard]] const std::vector<const Node*>& end_ports() const { return end_ports_; }
  [[nodiscard]] const std::vector<Partition>& partitions() const { return config_.partitions; }
  [[nodiscard]] std::uint8_t mtu() const { return config_.mtu; }
  [[nodiscard]] const std::vector<PortMtu>& port_mtus() const { return config_.port_mtus; }
  /// Nodes that have changed since the last call, including removed ones.
  [[nodiscard]] NodeSet take_changed();

 private:
  struct HcaGuids {
    Guid node;
    std::array<Guid, kMaxHcaPorts> ports{};
  };
  [[nodiscard]] PortAttributes new_port() const;
  /// The MTU of a port of an HCA: that of the subnet unless the operator has set another.
  [[nodiscard]] std::uint8_t mtu_of(std::string_view hca, std::uint8_t port) const;
  void adopt_configured(const std::vector<SubnetSnapshot::NodeEntry>& nodes);
  /// The GUID of the node, and those of its ports by number.
  [[nodiscard]] HcaGuids make_guids(std::string_view name, std::uint8_t ports) const;
  [[nodiscard]] HcaGuids guids_of(const topology::Hca& hca) const;
  [[nodiscard]] bool is_taken(const HcaGuids& guids, std::uint8_t ports) const;
  void add_port(NodeIndex index, Node node, const Attachment& at);
  [[nodiscard]] bool may_be_other_port(NodeIndex index, const Node& node, NodeIndex other) const;
  void link_ports(NodeIndex one, NodeIndex other);
  [[nodiscard]] Node& writable(const Node& node);
  void set_up_switches();
  void add_topology();
  [[nodiscard]] std::optional<Lid> next_lid(Lid after) const;
  [[nodiscard]] bool has_free_lids(std::size_t wanted) const;
  /// Whether a port with this LMC may have `lid` as its base LID.
  [[nodiscard]] bool is_free(Lid lid, std::uint8_t lmc) const;
  void claim_lids(NodeIndex index);
  void release_lids(const Node& node);
  void announce_sm();
  [[nodiscard]] std::array<PKey, kPKeyTableSize> pkey_table(
      const Node& node, bool is_sm, const std::array<PKey, kPKeyTableSize>& before) const;
  void assign_pkeys(NodeIndex index);
  bool insert(NodeIndex index, Node node);
  void forget(NodeIndex index);
  /// The node that the operator has given the address; null if there is none.
  [[nodiscard]] const Node* node_with(const IpAddress& address) const;
  void update_end_ports();
  [[nodiscard]] Node* find_node(NodeIndex index, ipoib::Error& error);

  SubnetConfig config_;
  std::vector<std::optional<Node>> nodes_;
  std::map<std::string, NodeIndex, std::less<>> by_name_;  ///< the first port of an HCA
  std::unordered_map<Guid, NodeIndex> by_guid_;
  std::vector<std::uint16_t> by_lid_;  ///< node + 1, or 0
  Switches switches_{config_};
  Routing routing_{switches_};
  std::vector<const Node*> end_ports_;
  Lid last_lid_;
  NodeSet changed_;
};

}  // namespace softib::subnet
