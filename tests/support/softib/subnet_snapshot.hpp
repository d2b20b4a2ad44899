// The state that a Subnet publishes, as a new one would read it from the fabric file.
#pragma once

#include "softib/subnet/subnet.hpp"

namespace softib::subnet {

[[nodiscard]] inline SubnetSnapshot snapshot_of(const Subnet& subnet) {
  SubnetSnapshot snapshot;
  for (std::size_t i = 0; i < kMaxNodes; ++i) {
    const auto index = static_cast<NodeIndex>(i);
    if (const Node* node = subnet.node(index)) snapshot.nodes.push_back({index, *node});
  }
  for (std::size_t i = 0; i < kUnicastLids; ++i) {
    const Lid lid(static_cast<std::uint16_t>(i));
    if (const auto node = subnet.node_at(lid)) snapshot.routes.push_back({lid, *node});
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const GroupForwarding group = subnet.forwarding(group_lid(i));
    if (group != GroupForwarding{}) snapshot.groups.push_back({group_lid(i), group});
  }
  return snapshot;
}

}  // namespace softib::subnet
