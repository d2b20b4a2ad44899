// The forwarding tables of a switch (IBA 18.2.4.3). The SM writes them; every process of a live
// subnet forwards packets by them.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

inline constexpr std::size_t kUnicastLids = ipoib::kFirstMulticastLid.value();
/// Entries of a block of each table, the unit in which an SM reads and writes them.
inline constexpr std::size_t kBlockLids = 64;
inline constexpr std::size_t kBlockGroups = 32;
using LidBlocks = std::bitset<kUnicastLids / kBlockLids>;
using GroupBlocks = std::bitset<kMaxGroups / kBlockGroups>;

/// The exit port of each unicast LID. Port 0 is the switch itself.
class LinearForwardingTable {
 public:
  /// Returns nullopt if `lid` has no route or is not a unicast LID.
  [[nodiscard]] std::optional<SwitchPort> at(Lid lid) const;
  /// Requires `lid` < kUnicastLids.
  void set(Lid lid, std::optional<SwitchPort> exit);
  /// Marks all blocks as changed, because the published state is unknown.
  void mark_all_changed() { changed_.set(); }
  [[nodiscard]] bool has_changed() const { return changed_.any(); }
  /// Blocks that have changed since the last call.
  [[nodiscard]] LidBlocks take_changed();

 private:
  std::vector<std::uint16_t> entries_;  ///< port + 1, or 0; LIDs beyond the last have no route
  LidBlocks changed_;
};

/// The exit ports of each multicast LID, by group_index(mlid).
class MulticastForwardingTable {
 public:
  [[nodiscard]] const PortSet& at(std::size_t index) const;
  void set(std::size_t index, const PortSet& exits);
  void mark_all_changed() { changed_.set(); }
  [[nodiscard]] bool has_changed() const { return changed_.any(); }
  /// Blocks that have changed since the last call.
  [[nodiscard]] GroupBlocks take_changed();

 private:
  std::vector<PortSet> entries_;  ///< groups beyond the last have no exits
  GroupBlocks changed_;
};

}  // namespace softib::subnet
