#include "softib/subnet/forwarding_tables.hpp"

#include <cassert>
#include <utility>

namespace softib::subnet {

std::optional<NodeIndex> LinearForwardingTable::at(Lid lid) const {
  if (!ipoib::is_unicast(lid) || entries_[lid.value()] == 0) return std::nullopt;
  return static_cast<NodeIndex>(entries_[lid.value()] - 1);
}

void LinearForwardingTable::set(Lid lid, std::optional<NodeIndex> node) {
  assert(lid.value() < kUnicastLids);
  const auto entry = static_cast<std::uint16_t>(node ? *node + 1 : 0);
  if (std::exchange(entries_[lid.value()], entry) != entry) changed_.set(lid.value());
}

LidSet LinearForwardingTable::take_changed() { return std::exchange(changed_, LidSet{}); }

void MulticastForwardingTable::set(std::size_t index, const NodeSet& receivers) {
  if (std::exchange(entries_[index], receivers) != receivers) changed_.set(index);
}

std::bitset<kMaxGroups> MulticastForwardingTable::take_changed() {
  return std::exchange(changed_, std::bitset<kMaxGroups>{});
}

}  // namespace softib::subnet
