#include "test_subnet.hpp"

#include <cstdlib>
#include <stdexcept>

namespace softib::test {

namespace {

fabric::FabricWriter make_fabric(const fabric::SubnetFolder& folder) {
  if (!folder.create()) throw std::runtime_error("cannot make " + folder.path());
  auto fabric = fabric::FabricWriter::create_or_adopt(folder.fabric());
  if (!fabric) throw std::runtime_error(fabric.error().message);
  return std::move(*fabric);
}

}  // namespace

TestSubnet::TestSubnet(NodeIndex hosts) : folder_(root_ / "subnet"), fabric_(make_fabric(folder_)) {
  for (NodeIndex i = 0; i <= hosts; ++i) {
    subnet::Node node;
    node.name = i == 0 ? "subnet" : "host" + std::to_string(i);
    node.port.port_guid = Guid(0x0002'c903'0000'0000ULL + i);
    node.port.node_guid = node.port.port_guid;
    node.port.lid = lid(i);
    node.port.sm_lid = lid(0);
    node.port.state = PortState::active;
    node.port.pkeys[0] = ipoib::kDefaultPKey;
    if (!folder_.create_node(i)) throw std::runtime_error("cannot make " + folder_.node(i));
    node.attachment = {0, static_cast<SwitchPort>(i + 1)};
    fabric_.set_node(i, node);
    switches_.connect(node.attachment, i, {i, node.port.number});
    switches_[0].routes.set(node.port.lid, node.attachment.port);
  }
  publish_switch();
}

void TestSubnet::publish_switch() {
  for (const auto& change : switches_.take_changes()) fabric_.set_switch(switches_[0], change);
}

void TestSubnet::set_route(Lid lid, NodeIndex node) {
  switches_[0].routes.set(lid, static_cast<SwitchPort>(node + 1));
  publish_switch();
}

std::unique_ptr<endpoint::Endpoint> TestSubnet::attach(NodeIndex node) const {
  auto endpoint = endpoint::Endpoint::attach_node(folder_, node);
  if (!endpoint) throw std::runtime_error(endpoint.error().message);
  return std::move(*endpoint);
}

void TestSubnet::enter(const char* hca) const {
  ::setenv(fabric::kDirectoryVariable, std::filesystem::path(folder_.path()).parent_path().c_str(),
           1);
  ::setenv(fabric::kSubnetVariable, folder_.name().c_str(), 1);
  ::setenv(fabric::kHcaVariable, hca, 1);
}

void TestSubnet::set_port_state(NodeIndex index, PortState state) {
  auto node = fabric_.node(index).value();
  node.port.state = state;
  fabric_.set_node(index, node);
}

void TestSubnet::join_ports(NodeIndex first, NodeIndex second) {
  auto one = fabric_.node(first).value();
  auto other = fabric_.node(second).value();
  one.port.hca_ports = other.port.hca_ports = 2;
  one.other_port = second;
  other.other_port = first;
  other.name = one.name;
  other.port.node_guid = one.port.node_guid;
  other.port.number = 2;
  fabric_.set_node(first, one);
  fabric_.set_node(second, other);
  switches_.disconnect(port_of(second));
  switches_.connect(port_of(second), second, {first, 2});
  publish_switch();
}

void TestSubnet::set_failed(NodeIndex index, bool failed) {
  auto node = fabric_.node(index).value();
  node.port.failed = failed;
  if (!failed) ++node.port.generation;
  node.port.state = failed ? PortState::down : PortState::active;
  fabric_.set_node(index, node);
}

void TestSubnet::set_faults(NodeIndex index, const LinkFaults& faults) {
  auto node = fabric_.node(index).value();
  node.port.faults = faults;
  fabric_.set_node(index, node);
}

void TestSubnet::set_filter(NodeIndex node, const subnet::PartitionFilter& filter) {
  switches_.set_filter(port_of(node), filter);
  publish_checks(node);
}

void TestSubnet::set_cable_faults(NodeIndex node, const subnet::CableFaults& faults) {
  switches_.set_faults(port_of(node), faults);
  publish_checks(node);
}

void TestSubnet::publish_checks(NodeIndex index) {
  auto node = fabric_.node(index).value();
  node.checks = switches_.entry_checks(port_of(index));
  fabric_.set_node(index, node);
  fabric_.set_checks(switches_.checks());
  publish_switch();
}

void TestSubnet::set_group(Lid mlid, std::initializer_list<NodeIndex> receivers) {
  subnet::GroupForwarding group;
  group.mgid = Gid(0xff12'401b'ffff'0000ULL, Guid(mlid.value()));
  PortSet exits;
  for (const auto node : receivers) {
    group.receivers.set(node);
    exits.set(node);
  }
  fabric_.set_group(mlid, group);
  switches_[0].groups.set(subnet::group_index(mlid), exits);
  publish_switch();
}

}  // namespace softib::test
