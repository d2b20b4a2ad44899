// The emulated subnet as a value: subnet manager, subnet administrator, and the subnet management
// agents of all nodes.
//
// No descriptor, no clock, no thread. Stimuli come in as calls, with `now` where time matters; what
// follows from them is appended to two lists that the caller drains: MADs to send, and what has
// changed of the picture that everybody forwards by (the fabric file in a live subnet, the switch
// in a simulated one). Nothing that comes in a MAD can make it throw, or grow without a bound.
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
#include "softib/subnet/subnet_types.hpp"

namespace softib::subnet {

/// A MAD for the processes of a node, whatever its DLID.
struct ForwardedMad {
  NodeIndex to = 0;
  MadPacket packet;
};

/// After an SM restart, how long packets to a group still reach those who were in it before and
/// have not joined again.
inline constexpr ipoib::Duration kRejoinGrace = std::chrono::seconds(60);

class Subnet {
 public:
  /// `counters` says what ports have counted, `is_manager` where a subnet manager is; both live as
  /// long.
  explicit Subnet(SubnetConfig config = {}, PerformanceAgents::Source counters = {},
                  IsManager is_manager = {});
  Subnet(const Subnet&) = delete;
  Subnet& operator=(const Subnet&) = delete;
  ~Subnet();

  /// Goes on where a dead subnet stopped. Nodes keep index, LID and port state, each is asked to
  /// register again; memberships are forgotten, but forwarded by for kRejoinGrace, and a group that
  /// is made again gets its MLID back. To be called before anything else; a record that makes no
  /// sense (a LID taken twice, ...) is left out.
  void adopt(const SubnetSnapshot& before, ipoib::TimePoint now);

  /// Adds an HCA and brings its port up; its name decides its GUIDs. One that exists is returned.
  /// `port`: by which port it is on the subnet, as SubnetManager::add() has it.
  [[nodiscard]] ipoib::Result<NodeIndex> add_hca(std::string_view name, std::uint8_t port = 0);
  [[nodiscard]] ipoib::Result<void> remove_hca(NodeIndex node);
  /// Anything but active ends the port's memberships, as a real SM would find it gone. Where the
  /// subnet is managed elsewhere, active means that the link comes up. What follows below, but for
  /// set_failed(), is EOPNOTSUPP there.
  [[nodiscard]] ipoib::Result<void> set_port_state(NodeIndex node, PortState state);
  /// The HCA is dead for the processes that are on it, and for others until it is mended, which
  /// brings its port up. ENODEV from set_port_state(): it has failed.
  [[nodiscard]] ipoib::Result<void> set_failed(NodeIndex node, bool failed);
  [[nodiscard]] ipoib::Result<void> set_lid(NodeIndex node, Lid lid);
  /// Of an HCA's port, an IBA code; the groups that it is in keep theirs.
  [[nodiscard]] ipoib::Result<void> set_mtu(NodeIndex node, std::uint8_t mtu);
  /// Of one HCA in one partition, which is made (without a group) when there is none.
  [[nodiscard]] ipoib::Result<void> set_membership(NodeIndex node, PKey pkey, Membership as);
  /// Another place in one HCA's P_Key table for its key of a partition.
  [[nodiscard]] ipoib::Result<void> move_pkey(NodeIndex node, PKey pkey, std::size_t place);
  /// Forgets groups and subscriptions as an SM that is started anew, in the manner of adopt().
  [[nodiscard]] ipoib::Result<void> restart_sm(ipoib::TimePoint now);

  [[nodiscard]] Management management() const;
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  [[nodiscard]] const Node* node(NodeIndex index) const;  ///< null: no such node
  /// The node that a unicast LID leads to, whatever the state of its port.
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// Who gets packets to a multicast LID, whatever port sends; nobody when there is no such group.
  [[nodiscard]] GroupForwarding forwarding(Lid mlid) const;
  [[nodiscard]] std::vector<GroupView> groups() const;
  [[nodiscard]] const std::vector<Partition>& partitions() const;
  [[nodiscard]] const SubnetCounters& counters() const;

  /// A MAD for the SM's port (QP1), or one of subnet management (QP0) or performance management
  /// (QP1) for any node.
  void receive(const MadPacket& packet, ipoib::TimePoint now);
  /// When on_time() wants to be called; kNever when nothing waits, the beginning of time for now.
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  void on_time(ipoib::TimePoint now);

  /// MADs to be sent since the last call, in order.
  [[nodiscard]] std::vector<MadPacket> take_outgoing();
  /// Of a subnet that is managed elsewhere: what is for the subnet managers on its HCAs.
  [[nodiscard]] std::vector<ForwardedMad> take_forwarded_mads();
  /// What has changed since the last call.
  [[nodiscard]] SubnetChanges take_changes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace softib::subnet
