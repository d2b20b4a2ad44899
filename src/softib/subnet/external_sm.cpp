// The part of SubnetManager for subnets with an external SM.
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

void SubnetManager::adopt_configured(const std::vector<SubnetSnapshot::NodeEntry>& nodes) {
  for (const auto& entry : nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);
    const bool is_switch = entry.index == kSubnetNode;
    if (is_switch && entry.node.name == kSwitchName) {
      switch_ = entry.node;
    } else if (!is_switch && !nodes_[entry.index]) {
      (void)insert(entry.index, entry.node);
    }
  }
  routes_.mark_all_changed();
}

void SubnetManager::set_port(NodeIndex index, const PortAttributes& port) {
  nodes_[index]->port = port;
  changed_.set(index);
}

void SubnetManager::set_switch_port(const PortAttributes& port) {
  switch_.port = port;
  changed_.set(kSubnetNode);
}

}  // namespace softib::subnet
