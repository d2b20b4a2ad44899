// What is left to do here where the subnet is managed elsewhere.
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// A port has no LID yet; one that nobody here programs is in the default partition
/// (IBA 14.2.5.7).
PortAttributes SubnetManager::new_port() const {
  PortAttributes port;
  port.state = link_up();
  port.mtu = config_.mtu;
  if (!is_own()) {
    port.max_mtu = config_.mtu;
    port.pkeys[0] = ipoib::kDefaultPKey;
  }
  return port;
}

void SubnetManager::adopt_programmed(const std::vector<SubnetSnapshot::NodeEntry>& nodes) {
  for (const auto& entry : nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);
    const bool is_switch = entry.index == kSwitchNode;
    if (is_switch && entry.node.name == kSwitchName) {
      switch_ = entry.node;
    } else if (!is_switch && !nodes_[entry.index]) {
      (void)insert(entry.index, entry.node);
    }
  }
  routes_.doubt();
}

void SubnetManager::program(NodeIndex index, const PortAttributes& port) {
  nodes_[index]->port = port;
  changed_.set(index);
}

void SubnetManager::program_switch(const PortAttributes& port) {
  switch_.port = port;
  changed_.set(kSwitchNode);
}

}  // namespace softib::subnet
