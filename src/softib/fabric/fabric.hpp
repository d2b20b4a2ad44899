// The fabric file: the picture of a subnet by which every process forwards, in shared memory.
//
// The subnet process is the only writer of nodes, LIDs and groups. Each record has two slots and a
// version: the writer fills the slot that is not in use and then advances the version, so there is
// a whole record at any moment, even after the writer was killed half-way. A reader that saw the
// version move reads again, a bounded number of times. HCA processes write only what belongs to
// them: the epoch and the occupied bit of the place whose lock they hold, and counters.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::fabric {

struct FabricLayout;

/// A mapped fabric file. Everything here may be called from any thread and never blocks.
class Fabric {
 public:
  /// Maps an existing file. Errors: there is none; it is no fabric file, or of another version.
  [[nodiscard]] static ipoib::Result<Fabric> open(const std::string& path);
  Fabric(Fabric&& other) noexcept;
  Fabric& operator=(Fabric&& other) noexcept;
  ~Fabric();

  /// Whether this is the file that `fd` has open, and not one of an earlier subnet.
  [[nodiscard]] bool is_file(int fd) const;
  /// Advances with each change of a node or a group.
  [[nodiscard]] std::uint64_t generation() const;
  /// Advances with each change of this node's record; 0: there was never a node.
  [[nodiscard]] std::uint32_t node_version(NodeIndex node) const;
  /// Nothing when there is no such node, or it changed faster than it could be read.
  [[nodiscard]] std::optional<subnet::Node> node(NodeIndex node) const;
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  [[nodiscard]] std::optional<NodeIndex> node_at(Lid lid) const;
  /// `down` for a node that does not exist.
  [[nodiscard]] PortState port_state(NodeIndex node) const;
  /// Who gets packets to a multicast LID; nothing when the record changed faster than it could be
  /// read. No group: a zero MGID and nobody.
  [[nodiscard]] std::optional<subnet::GroupForwarding> group(Lid mlid) const;
  /// The picture as it is: what a new subnet process adopts.
  [[nodiscard]] subnet::SubnetSnapshot snapshot() const;

  /// Bit p: a process is (or, killed, was) in place p.
  [[nodiscard]] std::uint64_t occupied(NodeIndex node) const;
  [[nodiscard]] std::uint32_t epoch(NodeIndex node, std::uint32_t place) const;
  /// For the holder of the place's lock. Epochs go from 1 to kMaxEpoch, and round.
  std::uint32_t advance_epoch(NodeIndex node, std::uint32_t place);
  void set_occupied(NodeIndex node, std::uint32_t place, bool occupied);

  void count(NodeIndex node, PortCounter counter, std::uint64_t by = 1);
  [[nodiscard]] PortCounterValues counters(NodeIndex node) const;

 protected:
  Fabric(FabricLayout* layout, std::size_t size, dev_t device, ino_t inode)
      : layout_(layout), size_(size), device_(device), inode_(inode) {}
  FabricLayout* layout_;

 private:
  std::size_t size_;
  dev_t device_;
  ino_t inode_;
};

/// For the one subnet process, which holds the subnet's lock.
class FabricWriter : public Fabric {
 public:
  /// Maps the file, makes it if there is none. A file of another version, or none of ours, is an
  /// error: the subnet's folder has to be removed by a person.
  [[nodiscard]] static ipoib::Result<FabricWriter> create_or_adopt(const std::string& path);

  /// There was a file: snapshot() says what is in it.
  [[nodiscard]] bool adopted() const { return adopted_; }
  void set_node(NodeIndex index, const subnet::Node& node);
  /// Epochs and counters stay with the index: numbers of dead processes do not come back.
  void remove_node(NodeIndex index);
  /// Where a unicast LID leads from now on. What it leads to need not be there.
  void set_route(Lid lid, std::optional<NodeIndex> node);
  void set_group(Lid mlid, const subnet::GroupForwarding& forwarding);

 private:
  FabricWriter(Fabric&& fabric, bool adopted) : Fabric(std::move(fabric)), adopted_(adopted) {}
  void advance_generation();

  bool adopted_;
};

}  // namespace softib::fabric
