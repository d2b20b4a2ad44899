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
  for (SwitchIndex i = 0; i < subnet.switches().size(); ++i) {
    const Switch& from = subnet.switches()[i];
    auto& entry = snapshot.switches.emplace_back();
    entry.node = from.node;
    entry.ports = from.ports;
    entry.routes = from.routes;
    entry.groups = from.groups;
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const GroupForwarding group = subnet.forwarding(group_lid(i));
    if (group != GroupForwarding{}) snapshot.groups.push_back({group_lid(i), group});
  }
  return snapshot;
}

}  // namespace softib::subnet
