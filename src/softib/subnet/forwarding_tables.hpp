// The forwarding tables of the switch (IBA 18.2.4.3): by what it sends a packet on, and what every
// process of a live subnet forwards by. Whoever manages the subnet writes them.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

inline constexpr std::size_t kUnicastLids = ipoib::kFirstMulticastLid.value();
using LidSet = std::bitset<kUnicastLids>;

/// To which node each unicast LID leads.
class LinearForwardingTable {
 public:
  /// Nothing for a LID that leads nowhere, or is no unicast LID.
  [[nodiscard]] std::optional<NodeIndex> at(Lid lid) const;
  /// `lid` must be below kUnicastLids.
  void set(Lid lid, std::optional<NodeIndex> node);
  /// Of all LIDs, as if they had changed: what was published before is unknown.
  void mark_all_changed() { changed_.set(); }
  /// LIDs that have changed since the last call.
  [[nodiscard]] LidSet take_changed();

 private:
  std::vector<std::uint16_t> entries_ = std::vector<std::uint16_t>(kUnicastLids);  ///< node + 1
  LidSet changed_;
};

/// To which nodes packets of each multicast LID go; by group_index(mlid).
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
