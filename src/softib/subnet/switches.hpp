// The switches of the subnet with their ports, cables and tables.
//
// Both ends of a cable share one state and its faults. The state of a node's cable is that of the
// node's port.
#pragma once

#include <bitset>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "softib/subnet/subnet_types.hpp"
#include "softib/subnet/switch_traps.hpp"

namespace softib::subnet {

/// The writable fields of SwitchInfo (IBA 14.2.5.4).
struct SwitchSettings {
  std::uint16_t linear_top = 0;
  std::uint8_t default_port = 0;
  std::uint8_t default_primary_port = 0;      ///< for multicast
  std::uint8_t default_not_primary_port = 0;  ///< for multicast
  std::uint8_t life_time = 0;                 ///< 5 bits
  bool links_changed = false;
};

struct Switch {
  Node node;  ///< its port is port 0, which is down while the switch is absent
  std::vector<ExternalPort> ports;  ///< by number; entry 0 is not used
  SwitchPort port_count = 0;        ///< that NodeInfo shows
  SwitchSettings settings;
  LinearForwardingTable routes;
  MulticastForwardingTable groups;
  SwitchTraps traps;
  bool has_changed = false;  ///< ports, since the last call of take_changes()

  [[nodiscard]] SwitchPort last_port() const { return static_cast<SwitchPort>(ports.size() - 1); }
};

class Switches {
 public:
  /// One switch with a port for each node if there is no topology. `config` must outlive this
  /// object.
  explicit Switches(const SubnetConfig& config);

  [[nodiscard]] SwitchIndex size() const { return static_cast<SwitchIndex>(all_.size()); }
  /// Whoever gets a switch in this way may change it until the next call of take_changes().
  [[nodiscard]] Switch& operator[](SwitchIndex index) {
    may_have_changed_.set(index);
    return all_[index];
  }
  [[nodiscard]] const Switch& operator[](SwitchIndex index) const { return all_[index]; }
  /// A port of an HCA of the topology, and where its cable leads.
  struct Place {
    Attachment at;
    const topology::Hca* hca;
    std::uint8_t port;  ///< of the HCA
    const topology::Cable* cable;
  };
  /// The ports of the HCA of the topology with this name, in order; empty if there is none.
  [[nodiscard]] std::span<const Place> places_of(std::string_view hca) const;
  /// Where to connect a new node that is in no topology; nullopt if no port is free. The node of
  /// the SM gets a port of its own if none is free.
  [[nodiscard]] std::optional<Attachment> port_for(std::string_view hca, NodeIndex node);
  /// Whether there is such a port, and nothing is connected to it.
  [[nodiscard]] bool is_free(const Attachment& at) const;
  /// Connects a port of an HCA, the first port of which is the node `to.hca`. Requires
  /// is_free(`at`).
  void connect(const Attachment& at, NodeIndex node, const HcaPort& to);
  /// To be called when another node has become the first port of the HCA that is connected.
  void set_hca(const Attachment& at, NodeIndex hca);
  void disconnect(const Attachment& at);
  /// Whether the link of a port can be up: its cable is plugged in, and the switches at its ends
  /// have power.
  [[nodiscard]] bool can_be_up(const Attachment& at) const;
  /// Sets the state of a cable between switches, at both ends.
  void set_cable(SwitchIndex index, SwitchPort port, PortState state);
  /// Counts that the link of a port to a node went from one state to another.
  void count_change(const Attachment& at, PortState before, PortState now);
  /// Sets the MTU of a cable between switches; an IBA code.
  void set_cable_mtu(SwitchIndex index, SwitchPort port, std::uint8_t mtu);
  /// Sets the P_Key enforcement of a port.
  void set_filter(const Attachment& at, const PartitionFilter& filter);
  /// The ports that check P_Keys.
  [[nodiscard]] const Attachments& filters() const { return filters_; }
  /// The ports whose cable loses packets.
  [[nodiscard]] const Attachments& lossy() const { return lossy_; }
  /// Sets the faults of a cable, at both ends.
  void set_faults(const Attachment& at, const CableFaults& faults);
  /// The checks of packets that enter a switch through a port.
  [[nodiscard]] CheckSet entry_checks(const Attachment& at) const;
  /// The checks of all ports.
  [[nodiscard]] CheckSet checks() const;
  void adopt(const std::vector<SubnetSnapshot::SwitchEntry>& before, bool with_tables);

  /// The tables, for follow() and spread().
  [[nodiscard]] std::optional<SwitchPort> exit(SwitchIndex at, Lid lid) const {
    return all_[at].routes.at(lid);
  }
  template <class Visit>
  void for_each_exit(SwitchIndex at, std::size_t group, Visit&& visit) const {
    const PortSet& exits = all_[at].groups.at(group);
    for (auto bit = exits._Find_first(); bit < exits.size(); bit = exits._Find_next(bit)) {
      visit(static_cast<SwitchPort>(bit + 1));
    }
  }
  [[nodiscard]] Peer peer(SwitchIndex at, SwitchPort port) const {
    const auto& ports = all_[at].ports;
    return port < ports.size() ? ports[port].peer : Peer{};
  }
  [[nodiscard]] std::optional<SwitchIndex> find(std::string_view name) const;
  [[nodiscard]] const Switch* find(Guid guid) const;  ///< null: none
  [[nodiscard]] std::vector<SwitchChanges> take_changes();

 private:
  [[nodiscard]] ExternalPort& port(const Attachment& at) {
    return (*this)[at.switch_index].ports[at.port];
  }
  /// To be called after a change of what Peer::checks follows from, at either end.
  void update_checks(const Attachment& at);
  void update_exit_checks(const Attachment& at);
  void note_filter(const Attachment& at);
  void note_loss(const Attachment& at);

  std::vector<Switch> all_;
  /// Those that take_changes() looks at, since an SM that programs many switches changes one with
  /// each packet.
  std::bitset<kMaxSwitches> may_have_changed_;
  std::map<std::string, std::vector<Place>, std::less<>> places_;  ///< by HCA of the topology
  Attachments filters_;
  Attachments lossy_;
  bool has_topology_;
};

}  // namespace softib::subnet
