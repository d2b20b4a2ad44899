// Which partitions of a port have an interface, and what the interfaces are called.
//
// The user has chosen partitions, and each of these has an interface, whether the port is in it yet
// or not; or has chosen none, and then each partition in the port's P_Key table has one. A port
// that is down keeps its interfaces, whatever is in its table: what the subnet manager has written
// there counts once it has made the port active.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib::daemon {

/// As many as the P_Key tables of the HCAs there are have places.
inline constexpr std::size_t kMaxInterfaces = 128;
/// What a partition other than the default one adds to a name: ".8001".
inline constexpr std::size_t kPartitionSuffix = 5;

/// The partitions of a P_Key table as full members' keys, each once: the default one first, the
/// others in the order of their indices.
[[nodiscard]] std::vector<PKey> partitions_of(std::span<const PKey> table);

/// "0xffff, 0x8001", for a person.
[[nodiscard]] std::string list_of(std::span<const PKey> keys);

class InterfacePlan {
 public:
  struct Changes {
    std::vector<PKey> make;    ///< in this order; each is counted as made until gone()
    std::vector<PKey> remove;  ///< each once; gone() follows when that is done
    std::size_t left_out = 0;  ///< partitions beyond kMaxInterfaces
  };

  /// `chosen` as full members' keys; none: all in the port's table.
  InterfacePlan(std::vector<PKey> chosen, std::string base_name)
      : chosen_(std::move(chosen)), base_name_(std::move(base_name)) {}

  /// What is to be done for a port that is like this now.
  [[nodiscard]] Changes update(bool active, std::span<const PKey> table);
  /// A partition has no interface any more, or could not get one: it gets one by the next update()
  /// that wants it.
  void gone(PKey partition) { interfaces_.erase(partition); }
  /// The administrator has deleted the interface: it is not made again for as long as the partition
  /// stays.
  void dismissed(PKey partition) { interfaces_[partition] = State::dismissed; }

  /// Linux's way: the default partition's interface has the base name, that of another partition
  /// its key behind a dot: ib0, ib0.8001. One that is chosen alone has the base name, too.
  [[nodiscard]] std::string name_of(PKey partition) const;

 private:
  enum class State { made, leaving, dismissed };

  std::vector<PKey> chosen_;
  std::string base_name_;
  std::map<PKey, State> interfaces_;
};

}  // namespace ipoib::daemon
