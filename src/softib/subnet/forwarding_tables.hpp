// The forwarding tables of the switch (IBA 18.2.4.3). The SM writes them; every process of a live
// subnet forwards packets by them.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

inline constexpr std::size_t kUnicastLids = ipoib::kFirstMulticastLid.value();
using LidSet = std::bitset<kUnicastLids>;

/// The destination node of each unicast LID.
class LinearForwardingTable {
 public:
  /// Returns nullopt if `lid` has no route or is not a unicast LID.
  [[nodiscard]] std::optional<NodeIndex> at(Lid lid) const;
  /// Requires `lid` < kUnicastLids.
  void set(Lid lid, std::optional<NodeIndex> node);
  /// Marks all LIDs as changed, because the published state is unknown.
  void mark_all_changed() { changed_.set(); }
  /// LIDs that have changed since the last call.
  [[nodiscard]] LidSet take_changed();

 private:
  std::vector<std::uint16_t> entries_ = std::vector<std::uint16_t>(kUnicastLids);  ///< node + 1
  LidSet changed_;
};

/// The receiving nodes of each multicast LID, by group_index(mlid).
class MulticastForwardingTable {
 public:
  [[nodiscard]] const NodeSet& at(std::size_t index) const { return entries_[index]; }
  void set(std::size_t index, const NodeSet& receivers);
  /// Groups that have changed since the last call.
  [[nodiscard]] std::bitset<kMaxGroups> take_changed();

 private:
  std::vector<NodeSet> entries_ = std::vector<NodeSet>(kMaxGroups);
  std::bitset<kMaxGroups> changed_;
};

}  // namespace softib::subnet
