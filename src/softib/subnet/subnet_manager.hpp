// The subnet manager's half of the emulated subnet: nodes, their GUIDs, LIDs, port states and P_Key
// tables, and where the switch sends packets. It decides; that somebody else reads what it decided
// is no concern of it: it says what has changed.
//
// Where the subnet is managed elsewhere, it decides nothing: ports and tables are as after power-on
// until they are programmed, and node 0 is nobody.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/partition.hpp"
#include "softib/subnet/port_values.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::subnet {

class SubnetManager {
 public:
  static constexpr NodeIndex kSmNode = 0;
  /// The same place, where the subnet is managed elsewhere.
  static constexpr NodeIndex kSwitchNode = 0;

  explicit SubnetManager(SubnetConfig config);

  /// Takes over nodes of an earlier subnet with their index, GUIDs, LID and port state. Left out is
  /// what contradicts itself: an index, a name, a GUID or a LID that is taken. They keep their LMC.
  void adopt(const std::vector<SubnetSnapshot::NodeEntry>& nodes);
  [[nodiscard]] bool has_own_sm() const { return config_.management == Management::own; }
  /// What a port is in when its link has come up.
  [[nodiscard]] PortState link_up() const {
    return has_own_sm() ? PortState::active : PortState::init;
  }
  /// An HCA that is on the subnet by its port `port`. One of that name is returned; 0: by whatever
  /// port it is, a new one by its first. EINVAL: no such port, or it is on it by another one.
  [[nodiscard]] ipoib::Result<NodeIndex> add(std::string_view name, std::uint8_t port = 0);
  [[nodiscard]] ipoib::Result<void> remove(NodeIndex index);
  [[nodiscard]] ipoib::Result<void> set_port_state(NodeIndex index, PortState state);
  [[nodiscard]] ipoib::Result<void> set_failed(NodeIndex index, bool failed);
  [[nodiscard]] ipoib::Result<void> set_lid(NodeIndex index, Lid lid);
  /// The MTU of a port, an IBA code: for paths, and groups that are joined from now on.
  [[nodiscard]] ipoib::Result<void> set_mtu(NodeIndex index, std::uint8_t mtu);
  [[nodiscard]] ipoib::Result<void> set_membership(NodeIndex index, PKey pkey, Membership as);
  /// Moves a key of a port to another place of its table, and what was there to the place that it
  /// leaves: a real SM may do so whenever it writes the table.
  [[nodiscard]] ipoib::Result<void> move_pkey(NodeIndex index, PKey pkey, std::size_t place);
  /// Where the subnet is managed elsewhere: a port of a node, or the switch's own, is as it has
  /// been programmed; and so are the tables.
  void set_port(NodeIndex index, const PortAttributes& port);
  void set_switch_port(const PortAttributes& port);
  void set_m_key(NodeIndex index, const ManagementKey& key) { nodes_[index]->key = key; }
  void set_switch_m_key(const ManagementKey& key) { switch_.key = key; }
  [[nodiscard]] LinearForwardingTable& routes() { return routes_; }
  [[nodiscard]] const LinearForwardingTable& routes() const { return routes_; }
  /// Asks the clients of every HCA to register again (IBA 14.4.11).
  void request_reregistration();

  [[nodiscard]] const Node* node(NodeIndex index) const;
  [[nodiscard]] const Node* node(std::optional<NodeIndex> index) const {
    return index ? node(*index) : nullptr;
  }
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  [[nodiscard]] std::optional<NodeIndex> find(Guid port_guid) const;
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// The switch between them: a LID and a GUID of its own, but no node.
  [[nodiscard]] const Node& the_switch() const { return switch_; }
  /// All ports that an SM sees: the nodes whose port is not down in their order, then the switch.
  [[nodiscard]] const std::vector<const Node*>& end_ports() const { return end_ports_; }
  [[nodiscard]] const std::vector<Partition>& partitions() const { return config_.partitions; }
  [[nodiscard]] std::uint8_t mtu() const { return config_.mtu; }
  /// Nodes that have changed since the last call; some of them may be gone.
  [[nodiscard]] NodeSet take_changed();

 private:
  struct Guids {
    Guid node;
    Guid port;
  };
  [[nodiscard]] PortAttributes new_port() const;
  void adopt_programmed(const std::vector<SubnetSnapshot::NodeEntry>& nodes);
  [[nodiscard]] Guids make_guids(std::string_view name, std::uint8_t port) const;
  [[nodiscard]] std::optional<Lid> next_lid() const;
  /// Whether a port with this LMC may have the LID, and all that follow from it.
  [[nodiscard]] bool is_free(Lid lid, std::uint8_t lmc) const;
  void claim_lids(NodeIndex index);
  void release_lids(const PortAttributes& port);
  void announce_sm();
  [[nodiscard]] std::array<PKey, kPKeyTableSize> pkey_table(
      const Node& node, bool is_sm, const std::array<PKey, kPKeyTableSize>& before) const;
  void assign_pkeys(NodeIndex index);
  bool insert(NodeIndex index, Node node);
  void list_end_ports();
  [[nodiscard]] Node* find_node(NodeIndex index, ipoib::Error& error);

  SubnetConfig config_;
  std::vector<std::optional<Node>> nodes_;
  std::map<std::string, NodeIndex, std::less<>> by_name_;
  std::unordered_map<Guid, NodeIndex> by_guid_;
  LinearForwardingTable routes_;
  Node switch_;
  std::vector<const Node*> end_ports_;
  Lid last_lid_;
  NodeSet changed_;
};

}  // namespace softib::subnet
