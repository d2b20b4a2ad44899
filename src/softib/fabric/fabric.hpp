// The fabric file: the forwarding state of a subnet in shared memory. Every process forwards by it.
//
// The subnet process is the only writer of nodes, switches and groups. Nodes and groups are
// PublishedRecords, so readers never see half a change, even after the writer was killed. An HCA
// process writes only the epoch and the occupied bit of the slot whose lock it holds, and counters.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/hca_ports.hpp"
#include "softib/core/key_violation.hpp"
#include "softib/fabric/mapped_file.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/subnet/performance.hpp"
#include "softib/subnet/switches.hpp"

namespace softib::fabric {

struct FabricLayout;
struct PublishedPort;
struct PublishedSwitch;

/// The switches of a subnet, and the highest number of their ports.
struct SwitchCount {
  std::uint16_t switches = 1;
  std::uint16_t ports = kMaxSwitchPort;
  friend bool operator==(const SwitchCount&, const SwitchCount&) = default;
};

/// A mapped fabric file; copies share the mapping. All functions may be called from any thread and
/// never block.
class Fabric {
 public:
  /// Maps an existing file, or shares the mapping of `known` if that is the same file. Fails if
  /// there is none, or if it is not a fabric file of this version.
  [[nodiscard]] static ipoib::Result<Fabric> open(const std::string& path,
                                                  const Fabric* known = nullptr);
  /// Whether another process has truncated the file, so that this one finds only zeroes in it.
  [[nodiscard]] bool is_lost() const { return fabric::is_lost(layout_.get()); }
  /// Whether `fd` refers to this file, rather than to that of an earlier or later subnet.
  [[nodiscard]] bool is_file(int fd) const;
  /// Grows with each change of this node's record; 0 if there was never a node.
  [[nodiscard]] std::uint32_t node_version(NodeIndex node) const;
  /// Returns nullopt if there is no such node, or if the record changes faster than it can be read.
  [[nodiscard]] std::optional<subnet::Node> node(NodeIndex node) const;
  /// The first port of the HCA with this name.
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  /// The node with an IP address, default addresses included. Each port of an HCA is a node.
  [[nodiscard]] std::optional<NodeIndex> find(const IpAddress& address) const;
  /// The record of a switch, with its port 0; nullopt as node().
  [[nodiscard]] std::optional<subnet::Node> switch_node(SwitchIndex at) const;
  /// Where a node is connected. The switch that is node 0 itself is the first one, by its port 0.
  [[nodiscard]] Attachment attachment_of(NodeIndex node) const;
  [[nodiscard]] SwitchIndex switch_of(NodeIndex node) const {
    return attachment_of(node).switch_index;
  }
  /// The way of a packet that enters a switch from a node; see subnet::follow(). For a LID that is
  /// no unicast LID, RouteEnd::no_entry.
  [[nodiscard]] subnet::Route route(SwitchIndex from, Lid dlid, bool subnet_management) const;
  /// The HCA of a node, and the number of the port that the node is. Cheap.
  [[nodiscard]] subnet::HcaPort hca_port(NodeIndex node) const;
  [[nodiscard]] NodeIndex hca_of(NodeIndex node) const { return hca_port(node).hca; }
  /// All ports of the HCA of a node. Returns nullopt as node().
  [[nodiscard]] std::optional<HcaPorts> hca_ports(NodeIndex node) const;
  /// The node that a packet to `dlid` arrives at, which for a LID of a switch is node 0.
  [[nodiscard]] std::optional<NodeIndex> node_at(SwitchIndex from, Lid dlid) const;
  /// The nodes that a multicast packet arrives at; see subnet::spread(). Counts `packets` and
  /// `bytes` on the cables between switches.
  [[nodiscard]] NodeSet receivers(SwitchIndex from, Lid mlid, std::size_t packets,
                                  std::size_t bytes, bool& has_looped);
  /// Counts packets that took the route on the cables between switches.
  void count_route(SwitchIndex from, Lid dlid, std::size_t packets, std::size_t bytes);
  /// Counts packets that took one cable.
  void count_cable(SwitchIndex at, SwitchPort exit, std::size_t packets, std::size_t bytes);
  void count(const Attachment& at, CableCounter counter, std::size_t by);
  /// What a port of a switch has sent to another switch, and dropped.
  [[nodiscard]] subnet::PerformanceCounters cable_counters(SwitchIndex at, SwitchPort port) const;
  /// The state of a node's port; `down` for a node that does not exist.
  [[nodiscard]] PortState port_state(NodeIndex node) const { return sender(node).state; }
  struct Sender {
    PortState state = PortState::down;            ///< of its port
    subnet::CheckSet checks = subnet::kNoChecks;  ///< of what it sends, where it enters its switch
  };
  [[nodiscard]] Sender sender(NodeIndex node) const;
  /// Grows after each change by which the way of a unicast packet may become another one.
  [[nodiscard]] std::uint64_t changes() const;
  /// Whether any port or cable of the subnet checks packets.
  [[nodiscard]] subnet::CheckSet checks() const;
  /// Whether the P_Key table of a port lets a packet pass. All pass if it does not check them.
  [[nodiscard]] bool lets_pass(const Attachment& at, subnet::Direction direction, PKey key) const;
  [[nodiscard]] subnet::CableFaults cable_faults(const Attachment& at) const;
  void note_violation(const Attachment& at, const subnet::PacketHeaders& headers);
  /// How many packets a port has dropped for their P_Key, and the last of them.
  [[nodiscard]] std::uint64_t violations(const Attachment& at) const;
  [[nodiscard]] subnet::PacketHeaders last_violation(const Attachment& at) const;
  /// Adds packets that the port of a node has dropped for a key, and replaces the last one.
  void note_violations(NodeIndex node, CheckedKey key, const KeyViolations& more);
  /// Returns nullopt if the last one is unknown, since two processes have noted theirs at once.
  [[nodiscard]] std::optional<KeyViolation> last_violation(NodeIndex node, CheckedKey key) const;
  [[nodiscard]] std::uint64_t violations(NodeIndex node, CheckedKey key) const;
  /// Returns the members of a multicast LID as the subnet's own SM knows them; for an unused LID, a
  /// zero MGID without receivers. Returns nullopt if the record changes faster than it can be read.
  [[nodiscard]] std::optional<subnet::GroupForwarding> group(Lid mlid) const;
  /// The exit ports of a multicast LID in the table of a switch, port 1 first.
  [[nodiscard]] PortSet exits(SwitchIndex at, Lid mlid) const;
  /// The nodes to which the tables forward a multicast LID.
  [[nodiscard]] NodeSet all_receivers(Lid mlid) const;
  /// All nodes, switches and groups: what a new subnet process adopts.
  [[nodiscard]] subnet::SubnetSnapshot snapshot() const;

  /// The tables, for subnet::follow() and subnet::spread().
  [[nodiscard]] SwitchIndex size() const { return count_.switches; }
  /// All nodes have a lower index.
  [[nodiscard]] NodeIndex nodes() const;
  [[nodiscard]] const SwitchCount& switches() const { return count_; }
  [[nodiscard]] std::optional<SwitchPort> exit(SwitchIndex at, Lid lid) const;
  [[nodiscard]] subnet::Peer peer(SwitchIndex at, SwitchPort port) const;
  template <class Visit>
  void for_each_exit(SwitchIndex at, std::size_t group, Visit&& visit) const {
    std::size_t first = 1;
    for (const auto& word : row_at(at, group)) {
      for (auto bits = word.load(std::memory_order_acquire); bits != 0; bits &= bits - 1) {
        const auto exit = first + static_cast<std::size_t>(std::countr_zero(bits));
        if (exit <= count_.ports) visit(static_cast<SwitchPort>(exit));
      }
      first += 64;
    }
  }

  /// Bit i is set while a process has slot i, and after it was killed until the slot is reclaimed.
  [[nodiscard]] SlotSet occupied(NodeIndex node) const;
  [[nodiscard]] bool is_occupied(NodeIndex node, std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t epoch(NodeIndex node, std::uint32_t slot) const;
  /// Advances the epoch of a slot, whose lock the caller holds. Epochs run from 1 to kMaxEpoch and
  /// then start again.
  std::uint32_t advance_epoch(NodeIndex node, std::uint32_t slot);
  void set_occupied(NodeIndex node, std::uint32_t slot, bool occupied);

  /// The captures of a node's packets; see capture_slots.hpp.
  [[nodiscard]] std::uint64_t captures(NodeIndex node) const;

  void count(NodeIndex node, PortCounter counter, std::uint64_t by = 1);
  [[nodiscard]] PortCounterValues counters(NodeIndex node) const;

 private:
  Fabric(std::shared_ptr<FabricLayout> layout, const SwitchCount& count, dev_t device, ino_t inode);

 protected:
  [[nodiscard]] PublishedSwitch& switch_at(SwitchIndex at) const;
  [[nodiscard]] PublishedPort& port_at(SwitchIndex at, SwitchPort port) const;
  [[nodiscard]] std::span<std::atomic<std::uint64_t>> row_at(SwitchIndex at,
                                                             std::size_t group) const;

  std::shared_ptr<FabricLayout> layout_;
  /// Read from the file when it was opened: what is there later is not trusted.
  SwitchCount count_;

 private:
  dev_t device_;
  ino_t inode_;
};

/// The writing side, for the subnet process, which holds the subnet's lock.
class FabricWriter : public Fabric {
 public:
  /// Maps the file, and creates it for these switches if there is none. Fails if the file is not a
  /// fabric file of this version, or has other switches; the operator then has to remove the
  /// folder.
  [[nodiscard]] static ipoib::Result<FabricWriter> create_or_adopt(
      const std::string& path, const SwitchCount& switches = SwitchCount());

  /// Whether the file existed; snapshot() returns what is in it.
  [[nodiscard]] bool adopted() const { return adopted_; }
  /// Makes room for a node, unless the file is_lost(). Fails if the file system is full.
  [[nodiscard]] ipoib::Result<void> reserve(NodeIndex index);
  /// There has to be room for the node.
  void set_node(NodeIndex index, const subnet::Node& node);
  /// The epochs of the index stay, so QPNs of dead processes are not reused soon.
  void remove_node(NodeIndex index);
  /// Sets the number of violations() to 0.
  void reset_violations(NodeIndex node, CheckedKey key);
  /// Writes what has changed in a switch.
  void set_switch(const subnet::Switch& from, const subnet::SwitchChanges& changes);
  /// Sets the checks of all ports; before the first port that has such, and after the last.
  void set_checks(subnet::CheckSet checks);
  void set_group(Lid mlid, const subnet::GroupForwarding& forwarding);
  /// Returns whether that is a change.
  bool set_captures(NodeIndex node, std::uint64_t captures);

 private:
  FabricWriter(Fabric&& fabric, std::string path, bool adopted)
      : Fabric(std::move(fabric)), path_(std::move(path)), adopted_(adopted) {}
  /// To be called when a change is complete.
  void changed();
  std::string path_;
  bool adopted_;
};

}  // namespace softib::fabric
