// The fabric file: the forwarding state of a subnet in shared memory. Every process forwards by it.
//
// The subnet process is the only writer of nodes, LIDs and groups. Nodes and groups are
// PublishedRecords, so readers never see half a change, even after the writer was killed. An HCA
// process writes only the epoch and the occupied bit of the slot whose lock it holds, and counters.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/fabric/mapped_file.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::fabric {

struct FabricLayout;

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
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  /// The node with an IP address, default addresses included.
  [[nodiscard]] std::optional<NodeIndex> find(const IpAddress& address) const;
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// The state of a node's port; `down` for a node that does not exist.
  [[nodiscard]] PortState port_state(NodeIndex node) const;
  /// Returns the receivers of a multicast LID; for an unused LID, a zero MGID without receivers.
  /// Returns nullopt if the record changes faster than it can be read.
  [[nodiscard]] std::optional<subnet::GroupForwarding> group(Lid mlid) const;
  /// All nodes, routes and groups: what a new subnet process adopts.
  [[nodiscard]] subnet::SubnetSnapshot snapshot() const;

  /// Bit i is set while a process has slot i, and after it was killed until the slot is reclaimed.
  [[nodiscard]] std::uint64_t occupied(NodeIndex node) const;
  [[nodiscard]] std::uint32_t epoch(NodeIndex node, std::uint32_t slot) const;
  /// Advances the epoch of a slot, whose lock the caller holds. Epochs run from 1 to kMaxEpoch and
  /// then start again.
  std::uint32_t advance_epoch(NodeIndex node, std::uint32_t slot);
  void set_occupied(NodeIndex node, std::uint32_t slot, bool occupied);

  void count(NodeIndex node, PortCounter counter, std::uint64_t by = 1);
  [[nodiscard]] PortCounterValues counters(NodeIndex node) const;

 private:
  Fabric(std::shared_ptr<FabricLayout> layout, dev_t device, ino_t inode)
      : layout_(std::move(layout)), device_(device), inode_(inode) {}

 protected:
  std::shared_ptr<FabricLayout> layout_;

 private:
  dev_t device_;
  ino_t inode_;
};

/// The writing side, for the subnet process, which holds the subnet's lock.
class FabricWriter : public Fabric {
 public:
  /// Maps the file, and creates it if there is none. Fails if the file is not a fabric file of this
  /// version; the operator then has to remove the folder.
  [[nodiscard]] static ipoib::Result<FabricWriter> create_or_adopt(const std::string& path);

  /// Whether the file existed; snapshot() returns what is in it.
  [[nodiscard]] bool adopted() const { return adopted_; }
  void set_node(NodeIndex index, const subnet::Node& node);
  /// Epochs and counters of the index stay, so QPNs of dead processes are not reused soon.
  void remove_node(NodeIndex index);
  /// Sets or clears the node that a unicast LID leads to. The node need not exist.
  void set_route(Lid lid, std::optional<NodeIndex> node);
  void set_group(Lid mlid, const subnet::GroupForwarding& forwarding);

 private:
  FabricWriter(Fabric&& fabric, bool adopted) : Fabric(std::move(fabric)), adopted_(adopted) {}
  bool adopted_;
};

}  // namespace softib::fabric
