// Decides which partitions of a port have an interface, and how the interfaces are called.
//
// If partitions were chosen, each of them has an interface, even if the port is not in it.
// Otherwise each partition in the port's P_Key table has one. While the port is not active, no
// interface is removed: the table is valid only after the subnet manager has made the port active.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib::daemon {

/// The largest P_Key table of existing HCAs has so many entries.
inline constexpr std::size_t kMaxInterfaces = 128;
/// Length of the suffix of a name for a partition other than the default one: ".8001".
inline constexpr std::size_t kPartitionSuffix = 5;

/// The partitions of a P_Key table as full members' keys without duplicates: the default partition
/// first, the others in the order of the table.
[[nodiscard]] std::vector<PKey> partitions_of(std::span<const PKey> table);

/// Formats keys as "0xffff, 0x8001".
[[nodiscard]] std::string list_of(std::span<const PKey> keys);

class InterfacePlan {
 public:
  struct Changes {
    std::vector<PKey> create;  ///< in this order; each counts as existing until on_removed()
    std::vector<PKey> remove;  ///< to be followed by on_removed()
    std::size_t left_out = 0;  ///< partitions beyond kMaxInterfaces
  };

  /// `chosen`: full members' keys; empty: all partitions in the port's table.
  InterfacePlan(std::vector<PKey> chosen, std::string base_name)
      : chosen_(std::move(chosen)), base_name_(std::move(base_name)) {}

  /// Returns what to create and to remove for the given state of the port.
  [[nodiscard]] Changes update(bool active, std::span<const PKey> table);
  /// The interface of a partition was removed, or could not be created. The next update() creates
  /// it if it is wanted.
  void on_removed(PKey partition) { interfaces_.erase(partition); }
  /// The operator has deleted the interface of a partition: it is not created again until the
  /// partition has left the table.
  void suppress(PKey partition) { interfaces_[partition] = State::suppressed; }

  /// As usual on Linux, the default partition's interface has the base name, and others append the
  /// key: ib0, ib0.8001. A single chosen partition has the base name, too.
  [[nodiscard]] std::string name_of(PKey partition) const;

 private:
  enum class State { created, removing, suppressed };

  std::vector<PKey> chosen_;
  std::string base_name_;
  std::map<PKey, State> interfaces_;
};

}  // namespace ipoib::daemon
