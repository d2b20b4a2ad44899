// The part of SubnetManager for subnets with an external SM.
#include <cassert>

#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

void SubnetManager::adopt_configured(const std::vector<SubnetSnapshot::NodeEntry>& nodes) {
  for (const auto& entry : nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);
    // Node 0 is the first switch, and adopted as such.
    if (entry.index != kSubnetNode) (void)insert(entry.index, entry.node);
  }
}

Node& SubnetManager::writable(const Node& node) {
  if (node.switch_index) return switches_[*node.switch_index].node;
  const auto index = find(node.port.port_guid);
  assert(index);
  return *nodes_[*index];
}

const Node* SubnetManager::node_of(const MadPacket& packet) const {
  if (packet.dlid != Lid() || !packet.grh) return node(node_at(packet.dlid));
  for (const auto& each : nodes_) {
    if (each && each->port.is_ethernet() && each->port.has(packet.grh->dgid)) return &*each;
  }
  return nullptr;
}

void SubnetManager::set_port(const Node& node, const PortAttributes& port) {
  Node& written = writable(node);
  if (written.switch_index) {
    written.port = port;
    switches_[*written.switch_index].has_changed = true;
    if (*written.switch_index == 0) changed_.set(kSubnetNode);
    return;
  }
  const NodeIndex index = *find(node.port.port_guid);
  const bool have_lids_changed = written.port.lid != port.lid || written.port.lmc != port.lmc;
  if (have_lids_changed) release_lids(written);
  switches_.count_change(written.attachment, written.port.state, port.state);
  written.port = port;
  if (have_lids_changed) claim_lids(index);
  changed_.set(index);
}

}  // namespace softib::subnet
