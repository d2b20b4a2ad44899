#include "softib/subnet/forwarding_tables.hpp"

#include <cassert>
#include <utility>

namespace softib::subnet {

std::optional<SwitchPort> LinearForwardingTable::at(Lid lid) const {
  if (lid.value() >= entries_.size() || entries_[lid.value()] == 0) return std::nullopt;
  return static_cast<SwitchPort>(entries_[lid.value()] - 1);
}

void LinearForwardingTable::set(Lid lid, std::optional<SwitchPort> exit) {
  assert(lid.value() < kUnicastLids);
  const auto entry = static_cast<std::uint16_t>(exit ? *exit + 1 : 0);
  if (lid.value() >= entries_.size()) {
    if (entry == 0) return;
    entries_.resize((lid.value() / kBlockLids + 1) * kBlockLids);
  }
  if (std::exchange(entries_[lid.value()], entry) == entry) return;
  changed_.set(lid.value() / kBlockLids);
}

LidBlocks LinearForwardingTable::take_changed() { return std::exchange(changed_, LidBlocks{}); }

const PortSet& MulticastForwardingTable::at(std::size_t index) const {
  static const PortSet kNone;
  return index < entries_.size() ? entries_[index] : kNone;
}

void MulticastForwardingTable::set(std::size_t index, const PortSet& exits) {
  assert(index < kMaxGroups);
  if (at(index) == exits) return;
  if (index >= entries_.size()) entries_.resize(index + 1);
  entries_[index] = exits;
  changed_.set(index / kBlockGroups);
}

GroupBlocks MulticastForwardingTable::take_changed() {
  return std::exchange(changed_, GroupBlocks{});
}

}  // namespace softib::subnet
