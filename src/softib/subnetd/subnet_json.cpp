#include "softib/subnetd/subnet_json.hpp"

#include <array>
#include <cstdio>

#include "softib/control/protocol.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/subnet/counters.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "wire/sa_values.hpp"

namespace softib::subnetd {

namespace json = boost::json;

namespace {

std::string hex(std::uint64_t value, int digits) {
  std::array<char, 24> text{};
  const int size = std::snprintf(text.data(), text.size(), "0x%0*llx", digits,
                                 static_cast<unsigned long long>(value));
  return std::string(text.data(), static_cast<std::size_t>(size));
}

json::array processes(const fabric::Fabric& fabric, const fabric::SubnetFolder& folder,
                      NodeIndex node) {
  json::array list;
  for (const auto& process : fabric::attached_processes(fabric, folder, node)) {
    list.push_back({{"slot", process.slot}, {"epoch", process.epoch}, {"pid", process.pid}});
  }
  return list;
}

json::object counters(const fabric::Fabric& fabric, NodeIndex node) {
  json::object object;
  const fabric::PortCounterValues values = fabric.counters(node);
  for (std::size_t i = 0; i < values.size(); ++i) {
    object[fabric::name(static_cast<fabric::PortCounter>(i))] = values[i];
  }
  return object;
}

json::object describe(const LinkFaults& faults) {
  return {{"loss", faults.loss},   {"duplicate", faults.duplicate}, {"reorder", faults.reorder},
          {"delay", faults.delay}, {"corrupt", faults.corrupt},     {"cm_loss", faults.cm_loss},
          {"seed", faults.seed}};
}

json::object describe(const subnet::Node& node, NodeIndex index) {
  json::array pkeys;
  for (const PKey key : node.port.pkeys) {
    if (key.is_valid()) pkeys.emplace_back(subnet::pkey_text(key));
  }
  json::array addresses;
  for (const auto family : {IpFamily::v4, IpFamily::v6}) {
    addresses.emplace_back(ipoib::to_string(address_of(index, family)));
  }
  for (const auto& address : node.addresses) addresses.emplace_back(ipoib::to_string(address));
  return {{"node", index},
          {"name", node.name},
          {"port", node.port.number},
          {"ports", node.port.hca_ports},
          {"lid", node.port.lid.value()},
          {"lmc", node.port.lmc},
          {"sm_lid", node.port.sm_lid.value()},
          {"state", node.port.failed ? control::name(control::HcaState::failed)
                                     : control::name(node.port.state)},
          {"gid", node.port.gid().to_string()},
          {"addresses", std::move(addresses)},
          {"node_guid", hex(node.port.node_guid.value(), 16)},
          {"port_guid", hex(node.port.port_guid.value(), 16)},
          {"mtu", ipoib::wire::mtu_bytes(node.port.mtu)},
          {"rate_mbps", ipoib::wire::rate_mbps(subnet::port_rate(node.port))},
          {"grh_required", node.port.grh_required},
          {"reregister_count", node.port.reregister_count},
          {"link_faults", describe(node.port.faults)},
          {"pkeys", std::move(pkeys)}};
}

/// What only the subnet process knows; null without it.
using Process = const subnet::Subnet*;

/// The NodeDescription of a node.
std::string description(const subnet::Node* node, const std::string& name) {
  return node != nullptr && !node->description.empty() ? node->description : name;
}

json::object describe_port(SwitchIndex index, SwitchPort number, const subnet::Peer& peer,
                           const fabric::Fabric& fabric, Process process) {
  json::object port{{"port", number}};
  const auto counters = fabric.cable_counters(index, number);
  port["receive_errors"] = counters.receive_errors;
  port["constraint_errors"] = counters.transmit_constraints + counters.receive_constraints;
  if (const auto faults = fabric.cable_faults({index, number}); faults.any()) {
    port["loss"] = faults.loss;
    port["delay"] = faults.delay;
  }
  if (peer.kind == subnet::Peer::Kind::node) {
    const auto node = fabric.node(peer.index);
    port["hca"] = node ? node->name : std::string();
    port["hca_port"] = peer.port;
    port["hca_ports"] = node ? node->port.hca_ports : std::uint8_t{1};
    port["state"] = control::name(fabric.port_state(peer.index));
    return port;
  }
  const auto other = fabric.switch_node(peer.index);
  port["to"] = other ? other->name : std::string();
  port["to_port"] = peer.port;
  port["state"] = control::name(peer.state);
  port["sent_packets"] = counters.transmit_packets;
  port["sent_bytes"] = counters.transmit_data * 4;
  port["discards"] = counters.transmit_discards;
  if (process == nullptr) return port;
  const auto& cable = process->switches()[index].ports[number];
  port["link_width"] = cable.width;
  port["link_speed"] = cable.speed;
  return port;
}

/// A switch with the ports that something is connected to.
json::object describe_switch(SwitchIndex index, const fabric::Fabric& fabric, Process process) {
  const auto node = fabric.switch_node(index).value_or(subnet::Node());
  const auto* const known = process != nullptr ? &process->switches()[index] : nullptr;
  json::object object{
      {"switch", index},
      {"name", node.name},
      {"description", description(known != nullptr ? &known->node : nullptr, node.name)},
      {"lid", node.port.lid.value()},
      {"guid", hex(node.port.node_guid.value(), 16)},
      {"state", control::name(node.port.state == PortState::down ? control::HcaState::absent
                                                                 : control::HcaState::present)}};
  if (known != nullptr) object["port_count"] = known->port_count;
  json::array ports;
  for (SwitchPort number = 1; number <= fabric.switches().ports; ++number) {
    const auto peer = fabric.peer(index, number);
    if (peer.kind == subnet::Peer::Kind::none) continue;
    ports.push_back(describe_port(index, number, peer, fabric, process));
  }
  object["ports"] = std::move(ports);
  return object;
}

json::array switches(const fabric::Fabric& fabric, Process process) {
  json::array list;
  for (SwitchIndex i = 0; i < fabric.size(); ++i)
    list.push_back(describe_switch(i, fabric, process));
  return list;
}

json::array nodes(const fabric::Fabric& fabric, const fabric::SubnetFolder& folder,
                  Process process) {
  json::array list;
  for (NodeIndex index = 0; index < fabric.nodes(); ++index) {
    const auto node = fabric.node(index);
    if (!node) continue;
    json::object object = describe(*node, index);
    object["description"] =
        description(process != nullptr ? process->node(index) : nullptr, node->name);
    object["link_width"] = node->port.width;
    object["link_speed"] = node->port.speed;
    const bool is_switch = node->attachment.port == 0;
    const auto at = fabric.switch_node(node->attachment.switch_index);
    object["switch"] = at && !is_switch ? at->name : std::string();
    object["switch_port"] = node->attachment.port;
    object["processes"] = processes(fabric, folder, index);
    object["counters"] = counters(fabric, index);
    list.push_back(std::move(object));
  }
  return list;
}

json::array names(const NodeSet& set, const fabric::Fabric& fabric) {
  json::array list;
  for (NodeIndex index = 0; index < kMaxNodes; ++index) {
    if (!set[index]) continue;
    if (const auto node = fabric.node(index)) list.emplace_back(subnet::port_name(*node));
  }
  return list;
}

json::object describe(const subnet::Partition& partition) {
  json::array members;
  for (const auto& member : partition.members) {
    members.push_back({{"hca", member.hca}, {"membership", control::name(member.membership)}});
  }
  return {{"pkey", subnet::pkey_text(partition.pkey)},
          {"others", control::name(partition.others)},
          {"members", std::move(members)}};
}

json::object describe(const subnet::GroupView& group, const subnet::Subnet& subnet,
                      const fabric::Fabric& fabric) {
  json::array members;
  for (const auto& member : group.members) {
    const subnet::Node* node = subnet.node(member.node);
    json::object described{{"hca", node != nullptr ? node->name : std::string()},
                           {"join_state", member.join_state},
                           {"proxy", member.proxy}};
    if (node != nullptr && node->other_port != subnet::kNoOtherPort) {
      described["port"] = node->port.number;
    }
    members.push_back(std::move(described));
  }
  return {{"mgid", group.mgid.to_string()},
          {"mlid", hex(group.mlid.value(), 4)},
          {"pkey", subnet::pkey_text(group.pkey)},
          {"qkey", hex(group.qkey.value(), 8)},
          {"mtu", ipoib::wire::mtu_bytes(group.mtu)},
          {"rate_mbps", ipoib::wire::rate_mbps(group.rate)},
          {"sl", group.sl.value()},
          {"permanent", group.permanent},
          {"members", std::move(members)},
          {"receivers", names(group.receivers, fabric)}};
}

/// The groups in the forwarding table, without MGIDs where an external SM manages the groups.
json::array forwarded_groups(const fabric::Fabric& fabric) {
  json::array groups;
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const Lid mlid = subnet::group_lid(i);
    const auto known = fabric.group(mlid).value_or(subnet::GroupForwarding());
    const NodeSet receivers = known.receivers | fabric.all_receivers(mlid);
    if (known.mgid.is_zero() && receivers.none()) continue;
    json::object group{{"mlid", hex(mlid.value(), 4)}, {"receivers", names(receivers, fabric)}};
    if (!known.mgid.is_zero()) group["mgid"] = known.mgid.to_string();
    groups.push_back(std::move(group));
  }
  return groups;
}

json::object describe(const subnet::SubnetCounters& counters) {
  return {{"answered", counters.answered},
          {"passed_on", counters.passed_on},
          {"refused", counters.refused},
          {"rmpp_control", counters.rmpp_control},
          {"rmpp_resent", counters.rmpp_resent},
          {"rmpp_given_up", counters.rmpp_given_up},
          {"report_acknowledged", counters.report_acknowledged},
          {"over_limit", counters.over_limit},
          {"drop_report", counters.drop_report},
          {"drop_malformed", counters.drop_malformed},
          {"drop_response", counters.drop_response},
          {"drop_source", counters.drop_source},
          {"drop_destination", counters.drop_destination},
          {"drop_gid", counters.drop_gid},
          {"drop_qkey", counters.drop_qkey},
          {"drop_pkey", counters.drop_pkey},
          {"drop_sm_key", counters.drop_sm_key},
          {"drop_m_key", counters.drop_m_key}};
}

}  // namespace

json::object subnet_json(const subnet::Subnet& subnet, const fabric::Fabric& fabric,
                         const fabric::SubnetFolder& folder) {
  const bool is_own = subnet.management() == subnet::Management::own;
  json::array partitions;
  json::array groups = is_own ? json::array() : forwarded_groups(fabric);
  if (is_own) {
    for (const auto& partition : subnet.partitions()) partitions.push_back(describe(partition));
    for (const auto& group : subnet.groups()) groups.push_back(describe(group, subnet, fabric));
  }
  return {{"subnet", folder.name()},
          {"folder", folder.path()},
          {"running", true},
          {"sm", is_own ? "own" : "none"},
          {"nodes", nodes(fabric, folder, &subnet)},
          {"switches", switches(fabric, &subnet)},
          {"partitions", std::move(partitions)},
          {"groups", std::move(groups)},
          {"sa", describe(subnet.counters())}};
}

json::object subnet_json(const fabric::Fabric& fabric, const fabric::SubnetFolder& folder) {
  return {{"subnet", folder.name()},
          {"folder", folder.path()},
          {"running", false},
          {"nodes", nodes(fabric, folder, nullptr)},
          {"switches", switches(fabric, nullptr)},
          {"groups", forwarded_groups(fabric)}};
}

}  // namespace softib::subnetd
