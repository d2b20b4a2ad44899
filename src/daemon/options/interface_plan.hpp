// Decides which partitions of a port have an interface, and how the interfaces are called.
//
// If partitions were chosen by options, each of them has an interface, even if the port is not in
// it. Otherwise each partition in the port's P_Key table has one. While the port is not active, no
// interface is removed: the table is valid only after the subnet manager has made the port active.
//
// Besides, the operator adds and deletes interfaces. An added one stays until it is deleted, even
// if the port is not in its partition.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/result.hpp"
#include "ipoib/vlan_id.hpp"

namespace ipoib::daemon {

/// The largest P_Key table of existing HCAs has so many entries.
inline constexpr std::size_t kMaxInterfaces = 128;
/// Length of the suffix of a name for a partition other than the default one: ".8001".
inline constexpr std::size_t kPartitionSuffix = 5;

/// The partitions of a P_Key table as full members' keys without duplicates: the default partition
/// first, the others in the order of the table.
[[nodiscard]] std::vector<PKey> partitions_of(std::span<const PKey> table);

/// The partition whose interface has the base name: the only chosen one, else the default one.
[[nodiscard]] PKey base_partition(std::span<const PKey> chosen);

/// Formats keys as "0xffff, 0x8001".
[[nodiscard]] std::string list_of(std::span<const PKey> keys);

/// What the operator has changed since the daemon was started. Outlives the device.
struct OperatorChanges {
  /// Partitions that have an interface in any case, with its name.
  std::map<PKey, std::string> added;
  /// Partitions that have no interface although they are chosen or in the table, until they are
  /// neither.
  std::set<PKey> deleted;
};

class InterfacePlan {
 public:
  struct Changes {
    std::vector<PKey> create;  ///< in this order; each counts as existing until on_removed()
    std::vector<PKey> remove;  ///< to be followed by on_removed()
    std::size_t left_out = 0;  ///< partitions beyond kMaxInterfaces
  };

  /// `chosen` are full members' keys; if it is empty, all partitions in the port's table are
  /// chosen. Those of `vlans` are chosen, too, if any partition is.
  InterfacePlan(std::vector<PKey> chosen, std::string base_name, OperatorChanges& by_operator,
                std::map<PKey, VlanId> vlans = {})
      : chosen_(std::move(chosen)),
        base_name_(std::move(base_name)),
        operator_(by_operator),
        vlans_(std::move(vlans)) {}

  /// Replaces the chosen partitions. The next update() follows. base_partition() must be the same.
  void choose(std::vector<PKey> chosen) { chosen_ = std::move(chosen); }
  /// Returns what to create and to remove for the given state of the port.
  [[nodiscard]] Changes update(bool active, std::span<const PKey> table);
  /// The interface of a partition was removed, or could not be created. The next update() creates
  /// it if it is wanted.
  void on_removed(PKey partition) { interfaces_.erase(partition); }
  /// The operator adds an interface for a full member's key; an empty name stands for the usual
  /// one. It counts as existing until on_removed(). Fails with EEXIST if the partition has an
  /// interface or another one has the name, EBUSY if its interface is being removed, EINVAL if the
  /// key or the name is invalid, and ENOSPC if there are kMaxInterfaces.
  [[nodiscard]] Result<void> add(PKey partition, const std::string& name);
  /// The interface could not be created, and is not to be added any more.
  void cancel_add(PKey partition);
  /// The operator deletes an interface, which is to be followed by on_removed(). Fails with EBUSY
  /// if it is the last one with a network interface, or is being removed.
  [[nodiscard]] Result<void> remove(PKey partition);
  /// The operator has deleted an interface in the kernel.
  void forget(PKey partition);

  /// The name that the operator has given. Otherwise as usual on Linux: the default partition's
  /// interface has the base name, and others append the key: ib0, ib0.8001. A single chosen
  /// partition has the base name instead of the default one. That of a VLAN appends its number:
  /// ib0.18.
  [[nodiscard]] std::string name_of(PKey partition) const;

 private:
  enum class State { created, removing };

  [[nodiscard]] std::vector<PKey> wanted(std::span<const PKey> table) const;
  [[nodiscard]] std::string usual_name_of(PKey partition) const;

  std::vector<PKey> chosen_;
  std::string base_name_;
  OperatorChanges& operator_;
  const std::map<PKey, VlanId> vlans_;  ///< of the interface with the base name
  std::map<PKey, State> interfaces_;
};

}  // namespace ipoib::daemon
