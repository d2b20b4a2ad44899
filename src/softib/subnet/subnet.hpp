// The emulated subnet without I/O: subnet manager, SA, and the subnet management agents of all
// nodes.
//
// It has no descriptor, no clock and no thread. Stimuli come in as calls, with `now` where time
// matters. The caller drains the results: MADs to send, and changes of the forwarding state
// (published in the fabric file of a live subnet, used by the switch of a simulated one). No MAD
// can make it throw or grow without bound.
#pragma once

#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/subnet/counters.hpp"
#include "softib/subnet/partition.hpp"
#include "softib/subnet/performance.hpp"
#include "softib/subnet/sma.hpp"
#include "softib/subnet/subnet_types.hpp"
#include "softib/subnet/switches.hpp"

namespace softib::subnet {

/// A MAD to forward to the processes of a node, regardless of its DLID.
struct ForwardedMad {
  NodeIndex to = 0;
  MadPacket packet;
};

/// What a subnet does not know itself.
struct SubnetSources {
  PerformanceAgents::Source counters{};     ///< of nodes
  IsManager is_manager{};                   ///< whether an SM runs on a node
  PerformanceAgents::CableSource cables{};  ///< counters of ports of switches
  PKeyViolations violations{};              ///< what these have dropped
  KeyViolationSource key_violations{};      ///< what ports of HCAs have dropped
};

/// How long the receivers of a group keep receiving after an SM restart without joining again.
inline constexpr ipoib::Duration kRejoinGrace = std::chrono::seconds(60);

class Subnet {
 public:
  explicit Subnet(SubnetConfig config = {}, SubnetSources sources = {});
  Subnet(const Subnet&) = delete;
  Subnet& operator=(const Subnet&) = delete;
  ~Subnet();

  /// Continues from the state of an earlier subnet process. Nodes keep index, LID and port state
  /// and are asked to register again. Memberships are discarded; their receivers keep receiving for
  /// kRejoinGrace, and a group that is created again gets the same MLID. Skips invalid records
  /// (such as duplicate LIDs). Must be called first.
  void adopt(const SubnetSnapshot& before, ipoib::TimePoint now);

  /// Adds an HCA and brings its ports up, or returns the existing one of that name: the node of its
  /// first port. The name determines its GUIDs. `port` is the number of a connected port; see
  /// SubnetManager::add().
  [[nodiscard]] ipoib::Result<NodeIndex> add_hca(std::string_view name, std::uint8_t port = 0);
  /// Removes the HCA that a node is a port of.
  [[nodiscard]] ipoib::Result<void> remove_hca(NodeIndex node);
  /// Any state but active ends the port's memberships, because an SM could no longer reach the
  /// port. With an external SM, active means that the link comes up; that SM decides on the rest,
  /// so the setters below except set_failed() return EOPNOTSUPP. Fails with EHOSTDOWN if the switch
  /// of the port is absent.
  [[nodiscard]] ipoib::Result<void> set_port_state(NodeIndex node, PortState state);
  /// Lets an HCA fail, or recover, which brings its ports up. Processes that are attached when it
  /// fails lose it for good. While it has failed, set_port_state() returns ENODEV.
  [[nodiscard]] ipoib::Result<void> set_failed(NodeIndex node, bool failed);
  [[nodiscard]] ipoib::Result<void> set_lid(NodeIndex node, Lid lid);
  /// `mtu` is an IBA code. Groups that the port is in keep their MTU.
  [[nodiscard]] ipoib::Result<void> set_mtu(NodeIndex node, std::uint8_t mtu);
  /// Lets a cable come up or go down. `to` may be left out if `from` names one cable. Fails with
  /// ENOENT if there is no such cable, and EINVAL if there are several.
  [[nodiscard]] ipoib::Result<void> set_cable(const CableEnd& from,
                                              const std::optional<CableEnd>& to, CableState state);
  /// Changes a cable; fails likewise. A link whose width or speed changes is trained again.
  [[nodiscard]] ipoib::Result<void> set_cable(const CableEnd& from,
                                              const std::optional<CableEnd>& to,
                                              const CableSettings& settings);
  /// Fails with ENOENT if there is no switch of that name.
  [[nodiscard]] ipoib::Result<void> set_switch(std::string_view name, SwitchState state);
  /// Writes the attributes of a port, as an external SM would; for an Ethernet port.
  [[nodiscard]] ipoib::Result<void> set_port(NodeIndex node, const PortAttributes& port);
  /// Sets the faults of the link of an HCA.
  [[nodiscard]] ipoib::Result<void> set_faults(NodeIndex node, const LinkFaults& faults);
  /// Moves a queue pair of the processes on an HCA to the error state; Qpn() for all of them.
  [[nodiscard]] ipoib::Result<void> fail_queue_pairs(NodeIndex node, Qpn qpn);
  /// Gives an HCA an IP address; does nothing if it has it. Fails with EINVAL as check_address(),
  /// EADDRINUSE if another node has it, and ENOSPC beyond kMaxNodeAddresses.
  [[nodiscard]] ipoib::Result<void> add_address(NodeIndex node, const IpAddress& address);
  /// Takes an address from an HCA. Fails with EADDRNOTAVAIL if the HCA was not given it.
  [[nodiscard]] ipoib::Result<void> delete_address(NodeIndex node, const IpAddress& address);
  /// Sets the membership of all ports of an HCA in a partition. Creates the partition (without
  /// group) if necessary, except for `none`.
  [[nodiscard]] ipoib::Result<void> set_membership(NodeIndex node, PKey pkey, Membership as);
  /// Deletes a partition with its groups and removes its key from all ports. EINVAL for the default
  /// partition, in which all ports reach the SM; ENOENT if there is none.
  [[nodiscard]] ipoib::Result<void> delete_partition(PKey pkey);
  /// Moves the key of a partition to another index of the HCA's P_Key table.
  [[nodiscard]] ipoib::Result<void> move_pkey(NodeIndex node, PKey pkey, std::size_t to);
  /// Discards groups and subscriptions, like a restarted SM; forwarding continues as in adopt().
  [[nodiscard]] ipoib::Result<void> restart_sm(ipoib::TimePoint now);

  [[nodiscard]] Management management() const;
  /// The first port of the HCA with this name.
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  /// A port of an HCA, which exists. 0: the only one that has a cable; fails with EINVAL if there
  /// are two.
  [[nodiscard]] ipoib::Result<NodeIndex> find_port(NodeIndex hca, std::uint8_t number) const;
  /// The ports of the HCA that a node is a port of.
  [[nodiscard]] std::vector<NodeIndex> ports_of_hca(NodeIndex node) const;
  [[nodiscard]] const Node* node(NodeIndex index) const;  ///< null: no such node
  /// The node that has the LID, regardless of its port state.
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// The switches with their tables.
  [[nodiscard]] const Switches& switches() const;
  /// The node that a packet of `from`, which must exist, arrives at by the tables, regardless of
  /// its port state; nullopt if it arrives at none.
  [[nodiscard]] std::optional<NodeIndex> route(NodeIndex from, Lid dlid) const;
  /// The nodes that a multicast packet of `from`, which must exist, arrives at by the tables.
  [[nodiscard]] NodeSet receivers(NodeIndex from, Lid mlid);
  /// The members of a multicast LID. With an external SM, those that the tables name.
  [[nodiscard]] GroupForwarding forwarding(Lid mlid) const;
  [[nodiscard]] std::vector<GroupView> groups() const;
  [[nodiscard]] const std::vector<Partition>& partitions() const;
  /// The MTUs that set_mtu() has set, for the configuration of a later process.
  [[nodiscard]] const std::vector<PortMtu>& port_mtus() const;
  [[nodiscard]] const SubnetCounters& counters() const;

  /// Ends the membership of a port with these join states, if it has them.
  void leave_group(NodeIndex node, const Gid& mgid, std::uint8_t join_states);

  /// Handles a MAD for the SM's port (QP1), or a subnet management (QP0), performance management or
  /// communication management (QP1) MAD for any node. Refuses those of communication management.
  void receive(const MadPacket& packet, ipoib::TimePoint now);
  /// When on_time() must be called: kNever if nothing is pending, TimePoint() for immediately.
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now);

  /// Returns the MADs to send since the last call, in order.
  [[nodiscard]] std::vector<MadPacket> take_outgoing();
  /// Returns the MADs for SMs on the HCAs since the last call (external SM only).
  [[nodiscard]] std::vector<ForwardedMad> take_forwarded_mads();
  /// Returns the changes since the last call.
  [[nodiscard]] SubnetChanges take_changes();

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace softib::subnet
