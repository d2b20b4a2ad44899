#include "softib/subnet/subnet_manager.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "softib/core/name.hpp"
#include "softib/subnet/rates.hpp"
#include "softib/topology/guids.hpp"
#include "wire/sa_records.hpp"

namespace softib::subnet {

using ipoib::Error;
using ipoib::Result;

namespace {

/// IBA VLCap, for external SMs, some of which route by lanes.
constexpr std::uint8_t kEightLanes = 4;

}  // namespace

SubnetManager::SubnetManager(SubnetConfig config)
    : config_(std::move(config)), nodes_(kMaxNodes), by_lid_(kUnicastLids), last_lid_(0) {
  set_up_switches();
  if (has_own_sm()) {
    const auto sm = add(kSmName);
    assert(sm && *sm == kSubnetNode);
    (void)sm;
    announce_sm();
  } else {
    changed_.set(kSubnetNode);
  }
  add_topology();
}

void SubnetManager::set_up_switches() {
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    Node& node = switches_[i].node;
    // Port 0 of a switch has the node's own GUID (IBA 14.2.5.3).
    Guid guid = node.port.node_guid;
    if (guid == Guid()) guid = make_guids(node.name, 1).node;
    node.port = new_port();
    if (!config_.roce.empty()) node.port.link_layer = LinkLayer::ethernet;
    node.port.node_guid = node.port.port_guid = guid;
    node.port.state = PortState::active;
    node.port.pkeys[0] = ipoib::kDefaultPKey;
    if (!has_own_sm()) continue;
    node.port.lid = Lid(static_cast<std::uint16_t>(kSwitchLid.value() - i));
  }
  if (!has_own_sm()) return;
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    for (SwitchPort port = 1; port <= switches_[i].last_port(); ++port) {
      if (switches_.peer(i, port).kind != Peer::Kind::switch_port) continue;
      switches_.set_cable(i, port, link_up_state());
    }
  }
  reroute();
}

/// Adds the HCAs of the topology, so that an SM finds them before programs run on them.
void SubnetManager::add_topology() {
  if (!config_.topology) return;
  for (const auto& hca : config_.topology->hcas) {
    if (!switches_.places_of(hca.name).empty()) (void)add(hca.name);
  }
}

void SubnetManager::adopt(const SubnetSnapshot& before) {
  switches_.adopt(before.switches, !has_own_sm());
  for (NodeIndex i = kSubnetNode + 1; i < kMaxNodes; ++i) {
    if (nodes_[i]) forget(i);  // an HCA of the topology
  }
  if (!has_own_sm()) return adopt_configured(before.nodes);
  for (const auto& entry : before.nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);
    Node node = entry.node;
    if (entry.index == kSubnetNode && node.name == kSmName && nodes_[kSubnetNode]) {
      forget(kSubnetNode);
    }
    node.port.mtu = mtu_of(node.name, node.port.number);
    if (nodes_[entry.index]) continue;
    if (!is_free(node.port.lid, node.port.lmc)) continue;
    (void)insert(entry.index, std::move(node));
  }
  if (!nodes_[kSubnetNode]) (void)add(kSmName);
  announce_sm();
  reroute();
}

Result<NodeIndex> SubnetManager::add(std::string_view name, std::uint8_t port) {
  const auto no_cable = [&](unsigned connected) {
    return Error{EINVAL, "the HCA '" + std::string(name) + "' is connected by its port " +
                             std::to_string(connected)};
  };
  if (const auto known = find(name)) {
    const Node& first = *nodes_[*known];
    if (port == 0 || port_of_hca(first, port) != nullptr) return *known;
    return no_cable(first.port.number);
  }
  if (port > kMaxHcaPorts) {
    return Error{EINVAL, "an HCA has " + std::to_string(kMaxHcaPorts) + " ports"};
  }
  if (!is_valid_name(name)) return invalid_name("HCA", name);
  if (switches_.find(name)) {
    return Error{EINVAL, "'" + std::string(name) + "' is a switch: choose another name for an HCA"};
  }
  const auto places = switches_.places_of(name);
  const bool is_connected =
      port == 0 || places.empty() || std::ranges::count(places, port, &Switches::Place::port) != 0;
  if (!is_connected) return no_cable(places.front().port);

  // Without a topology, an external SM only finds nodes that have a numbered port of the switch.
  const bool are_all_found = has_own_sm() || config_.topology;
  const auto first = nodes_.begin() + (has_own_sm() ? 0 : kSubnetNode + 1);
  const auto last = are_all_found ? nodes_.end() : nodes_.begin() + kMaxNumberedPort;
  std::vector<NodeIndex> free;
  const std::size_t wanted = std::max<std::size_t>(places.size(), 1);
  for (auto each = first; each != last && free.size() < wanted; ++each) {
    if (!*each) free.push_back(static_cast<NodeIndex>(each - nodes_.begin()));
  }
  const bool has_room = free.size() == wanted && has_free_lids(wanted);
  const auto attachment =
      has_room && places.empty() ? switches_.port_for(name, free[0]) : std::optional<Attachment>();
  if (has_room && places.empty() && !attachment) {
    return Error{ENOSPC, "no switch of the topology has a free port for '" + std::string(name) +
                             "': choose one of its HCAs (softib show)"};
  }
  if (!has_room) {
    return Error{ENOSPC,
                 "the subnet is full: it has " + std::to_string(last - first) +
                     " nodes, or no LID is free: remove unused HCAs (softib set hca NAME absent), "
                     "or use another subnet (--subnet)" +
                     (has_own_sm() ? "" : ", or --sm own, which manages more nodes")};
  }
  Node node{std::string(name), new_port()};
  if (places.empty()) {
    node.port.number = node.port.hca_ports = std::max<std::uint8_t>(port, 1);
    const auto guids = make_guids(name, node.port.hca_ports);
    node.port.node_guid = guids.node;
    node.port.port_guid = guids.ports[node.port.number - 1U];
    add_port(free[0], std::move(node), *attachment);
    return free[0];
  }
  const auto guids = guids_of(*places.front().hca);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& place = places[i];
    Node each = node;
    each.description = place.hca->description;
    each.port.number = place.port;
    each.port.hca_ports = place.hca->ports;
    each.port.node_guid = guids.node;
    each.port.port_guid = guids.ports[place.port - 1U];
    each.port.width = place.cable->width;
    each.port.speed = place.cable->speed;
    add_port(free[i], std::move(each), place.at);
  }
  return free[0];
}

/// Makes a port of a new HCA a node. There has to be a free LID for it.
void SubnetManager::add_port(NodeIndex index, Node node, const Attachment& at) {
  node.port.mtu = mtu_of(node.name, node.port.number);
  node.attachment = at;
  if (has_own_sm()) {
    const auto lid = next_lid(last_lid_);
    assert(lid);
    node.port.lid = last_lid_ = *lid;
    node.port.lmc = config_.lmc;
    node.port.sm_lid = index == kSubnetNode ? *lid : nodes_[kSubnetNode]->port.lid;
  }
  const bool is_new = insert(index, std::move(node));
  assert(is_new);
  (void)is_new;
}

std::vector<NodeIndex> SubnetManager::ports_of_hca(NodeIndex index) const {
  const NodeIndex first = hca_of(index, *nodes_[index]);
  const NodeIndex second = nodes_[first]->other_port;
  if (second == kNoOtherPort) return {first};
  return {first, second};
}

const Node* SubnetManager::port_of_hca(const Node& node, unsigned number) const {
  if (node.port.number == number) return &node;
  const Node* const other = node.other_port != kNoOtherPort ? this->node(node.other_port) : nullptr;
  return other != nullptr && other->port.number == number ? other : nullptr;
}

Result<void> SubnetManager::remove(NodeIndex index) {
  Error error;
  const Node* node = find_node(index, error);
  if (node == nullptr) return error;
  std::erase_if(config_.port_mtus, [&](const PortMtu& each) { return each.hca == node->name; });
  for (const auto port : ports_of_hca(index)) forget(port);
  return {};
}

void SubnetManager::forget(NodeIndex index) {
  const Node& node = *nodes_[index];
  by_name_.erase(node.name);
  if (node.other_port != kNoOtherPort) {
    Node& other = *nodes_[node.other_port];
    by_name_[node.name] = node.other_port;
    other.other_port = kNoOtherPort;
    switches_.set_hca(other.attachment, node.other_port);
    changed_.set(node.other_port);
  }
  by_guid_.erase(node.port.port_guid);
  release_lids(node);
  switches_.disconnect(node.attachment);
  nodes_[index].reset();
  update_end_ports();
  changed_.set(index);
}

Result<void> SubnetManager::set_port_state(NodeIndex index, PortState state) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.failed) return Error{ENODEV, "the HCA '" + node->name + "' has failed"};
  if (node->port.state == state) return {};
  switches_.count_change(node->attachment, node->port.state, state);
  node->port.set_state(state);
  update_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_failed(NodeIndex index, bool failed) {
  Error error;
  if (find_node(index, error) == nullptr) return error;
  for (const auto each : ports_of_hca(index)) {
    Node& node = *nodes_[each];
    if (node.port.failed == failed) continue;
    node.port.failed = failed;
    if (!failed) ++node.port.generation;
    const PortState state = failed ? PortState::down : link_up_state();
    switches_.count_change(node.attachment, node.port.state, state);
    node.port.set_state(state);
    changed_.set(each);
  }
  update_end_ports();
  return {};
}

Result<void> SubnetManager::set_lid(NodeIndex index, Lid lid) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.lid == lid) return {};
  if (lid != ipoib::base_lid(lid, node->port.lmc)) {
    return Error{EINVAL, "the base LID of a port is a multiple of " +
                             std::to_string(1U << node->port.lmc) + " if the LMC is " +
                             std::to_string(node->port.lmc)};
  }
  release_lids(*node);
  if (!is_free(lid, node->port.lmc)) {
    claim_lids(index);
    return Error{EINVAL,
                 "LID " + std::to_string(lid.value()) +
                     " is in use, or not a unicast LID; softib show nodes lists those in use"};
  }
  node->port.lid = lid;
  claim_lids(index);
  changed_.set(index);
  if (index == kSubnetNode) announce_sm();
  return {};
}

/// A port without a LID. With an external SM it starts in the default partition (IBA 14.2.5.7).
PortAttributes SubnetManager::new_port() const {
  PortAttributes port;
  port.state = link_up_state();
  port.mtu = config_.mtu;
  port.grh_required = config_.grh_required;
  if (!has_own_sm()) {
    port.vl_capability = kEightLanes;
    port.max_mtu = config_.mtu;
    port.pkeys[0] = ipoib::kDefaultPKey;
  }
  return port;
}

/// Writes the SM's LID to every port.
void SubnetManager::announce_sm() {
  const Lid lid = nodes_[kSubnetNode]->port.lid;
  for (SwitchIndex i = 0; i < switches_.size(); ++i) switches_[i].node.port.sm_lid = lid;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i] || nodes_[i]->port.sm_lid == lid) continue;
    nodes_[i]->port.sm_lid = lid;
    changed_.set(i);
  }
}

Result<void> SubnetManager::set_faults(NodeIndex index, const LinkFaults& faults) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.faults == faults) return {};
  node->port.faults = faults;
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::fail_queue_pairs(NodeIndex index, Qpn qpn) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  node->port.qp_errors.add(qpn);
  changed_.set(index);
  return {};
}

const Node* SubnetManager::node_with(const IpAddress& address) const {
  for (const auto& node : nodes_) {
    if (node && std::ranges::count(node->addresses, address) != 0) return &*node;
  }
  return nullptr;
}

Result<void> SubnetManager::add_address(NodeIndex index, const IpAddress& address) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (auto checked = check_address(address); !checked) return checked;
  const Node* const owner = node_with(address);
  if (owner == node) return {};
  if (owner != nullptr) {
    return Error{EADDRINUSE, ipoib::to_string(address) + " is an address of the HCA '" +
                                 port_name(*owner) + "'"};
  }
  if (node->addresses.size() >= kMaxNodeAddresses) {
    const auto name = port_name(*node);
    return Error{ENOSPC, "the HCA '" + name + "' has " + std::to_string(kMaxNodeAddresses) +
                             " addresses, which is the limit: take one away (softib set address " +
                             name + " ADDRESS delete)"};
  }
  node->addresses.push_back(address);
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::delete_address(NodeIndex index, const IpAddress& address) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (std::erase(node->addresses, address) == 0) {
    return Error{EADDRNOTAVAIL,
                 "the HCA '" + port_name(*node) + "' was not given " + ipoib::to_string(address)};
  }
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_mtu(NodeIndex index, std::uint8_t mtu) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (!is_mtu(mtu) || mtu > node->port.max_mtu) {
    return Error{EINVAL, "an MTU is 256, 512, 1024, 2048 or 4096 bytes"};
  }
  std::erase_if(config_.port_mtus, [&](const PortMtu& each) {
    return each.hca == node->name && each.port == node->port.number;
  });
  if (mtu != config_.mtu) config_.port_mtus.push_back({node->name, mtu, node->port.number});
  node->port.mtu = mtu;
  changed_.set(index);
  return {};
}

std::uint8_t SubnetManager::mtu_of(std::string_view hca, std::uint8_t port) const {
  const auto& set = config_.port_mtus;
  const auto found = std::ranges::find_if(
      set, [&](const PortMtu& each) { return each.hca == hca && each.port == port; });
  return found == set.end() ? config_.mtu : found->mtu;
}

void SubnetManager::request_reregistration() {
  for (std::size_t i = kSubnetNode + 1; i < nodes_.size(); ++i) {
    if (nodes_[i]) request_reregistration(static_cast<NodeIndex>(i));
  }
}

void SubnetManager::request_reregistration(NodeIndex index) {
  ++nodes_[index]->port.reregister_count;
  changed_.set(index);
}

bool SubnetManager::is_reached(const Node& node) const {
  if (!has_own_sm() || !nodes_[kSubnetNode]) return true;
  return routing_.reaches(nodes_[kSubnetNode]->attachment.switch_index,
                          node.switch_index.value_or(node.attachment.switch_index));
}

const Node* SubnetManager::node(NodeIndex index) const {
  return index < nodes_.size() && nodes_[index] ? &*nodes_[index] : nullptr;
}

std::optional<NodeIndex> SubnetManager::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::optional<NodeIndex> SubnetManager::find(Guid port_guid) const {
  const auto found = by_guid_.find(port_guid);
  if (found == by_guid_.end()) return std::nullopt;
  return found->second;
}

std::optional<NodeIndex> SubnetManager::node_at(Lid lid) const {
  if (!ipoib::is_unicast(lid) || by_lid_[lid.value()] == 0) return std::nullopt;
  return static_cast<NodeIndex>(by_lid_[lid.value()] - 1);
}

const Switch* SubnetManager::switch_at(Lid lid) const {
  if (!ipoib::is_unicast(lid)) return nullptr;
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (switches_[i].node.port.has(lid)) return &switches_[i];
  }
  return nullptr;
}

NodeSet SubnetManager::take_changed() { return std::exchange(changed_, NodeSet{}); }

SubnetManager::HcaGuids SubnetManager::make_guids(std::string_view name, std::uint8_t ports) const {
  for (std::uint64_t attempt = 0;; ++attempt) {
    HcaGuids guids{topology::derived_guid(name, config_.seed + attempt)};
    for (std::uint8_t i = 0; i < ports; ++i) guids.ports[i] = Guid(guids.node.value() + i + 1U);
    if (!is_taken(guids, ports)) return guids;
  }
}

/// Those of the file, if no other HCA has them.
SubnetManager::HcaGuids SubnetManager::guids_of(const topology::Hca& hca) const {
  HcaGuids guids{hca.guid};
  for (std::uint8_t i = 0; i < hca.ports; ++i) {
    const Guid given = hca.port_guids[i];
    guids.ports[i] = given == Guid() ? Guid(hca.guid.value() + i + 1U) : given;
  }
  const bool are_given = hca.guid != Guid() && !is_taken(guids, hca.ports);
  return are_given ? guids : make_guids(hca.name, hca.ports);
}

bool SubnetManager::is_taken(const HcaGuids& guids, std::uint8_t ports) const {
  for (std::uint8_t i = 0; i < ports; ++i) {
    if (by_guid_.contains(guids.ports[i])) return true;
  }
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (switches_[i].node.port.node_guid == guids.node) return true;
  }
  return false;
}

bool SubnetManager::has_free_lids(std::size_t wanted) const {
  if (!has_own_sm()) return true;
  auto after = last_lid_;
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto lid = next_lid(after);
    const bool is_new = lid && (i == 0 || *lid != after);
    if (!is_new) return false;
    after = *lid;
  }
  return true;
}

std::optional<Lid> SubnetManager::next_lid(Lid after) const {
  // LIDs are taken in ascending order, so that the LID of a removed node is not reused soon.
  const std::uint32_t size = 1U << config_.lmc;
  const std::uint32_t blocks = (kSwitchLid.value() - switches_.size() + 1U) / size - 1;
  for (std::uint32_t step = 0; step < blocks; ++step) {
    const std::uint32_t block = (after.value() / size + step) % blocks + 1;
    const Lid lid(static_cast<std::uint16_t>(block * size));
    if (is_free(lid, config_.lmc)) return lid;
  }
  return std::nullopt;
}

bool SubnetManager::is_free(Lid lid, std::uint8_t lmc) const {
  for (std::uint32_t bits = 0; bits < 1U << lmc; ++bits) {
    const Lid each(static_cast<std::uint16_t>(lid.value() + bits));
    const bool is_of_switch = each.value() + switches_.size() > kSwitchLid.value();
    if (!ipoib::is_unicast(each) || is_of_switch || node_at(each)) return false;
  }
  return lid == ipoib::base_lid(lid, lmc);
}

void SubnetManager::claim_lids(NodeIndex index) {
  const Node& node = *nodes_[index];
  if (!ipoib::is_unicast(node.port.lid)) return;
  for (std::uint32_t bits = 0; bits < 1U << node.port.lmc; ++bits) {
    const Lid lid = node.port.source_lid(static_cast<std::uint8_t>(bits));
    by_lid_[lid.value()] = static_cast<std::uint16_t>(index + 1);
    if (has_own_sm())
      routing_.set_routes(node.attachment.switch_index, {{lid, node.attachment.port}});
  }
}

/// An external SM may have given a LID of the node to another one since.
void SubnetManager::release_lids(const Node& node) {
  if (!ipoib::is_unicast(node.port.lid)) return;
  for (std::uint32_t bits = 0; bits < 1U << node.port.lmc; ++bits) {
    const Lid lid = node.port.source_lid(static_cast<std::uint8_t>(bits));
    const auto owner = node_at(lid);
    if (!owner || this->node(*owner) != &node) continue;
    by_lid_[lid.value()] = 0;
    if (has_own_sm()) routing_.clear_route(lid);
  }
}

void SubnetManager::reroute() {
  routing_.cables_changed();
  std::vector<std::vector<Routing::Destination>> destinations(switches_.size());
  const Switches& switches = switches_;
  for (SwitchIndex i = 0; i < switches.size(); ++i) {
    destinations[i].push_back({switches[i].node.port.lid, 0});
  }
  for (const auto& node : nodes_) {
    if (!node || !ipoib::is_unicast(node->port.lid)) continue;
    for (std::uint32_t bits = 0; bits < 1U << node->port.lmc; ++bits) {
      destinations[node->attachment.switch_index].push_back(
          {node->port.source_lid(static_cast<std::uint8_t>(bits)), node->attachment.port});
    }
  }
  for (SwitchIndex i = 0; i < switches.size(); ++i) routing_.set_routes(i, destinations[i]);
  update_end_ports();
}

void SubnetManager::set_present(SwitchIndex index, bool present) {
  Switch& at = switches_[index];
  const PortAttributes before = at.node.port;
  at.node.port = new_port();
  at.node.port.node_guid = before.node_guid;
  at.node.port.port_guid = before.port_guid;
  at.node.port.state = present ? PortState::active : PortState::down;
  at.node.port.pkeys[0] = ipoib::kDefaultPKey;
  at.node.key = {};
  at.node.lanes = LaneTables(at.port_count);
  at.node.tuning = kUsualTuning;
  for (auto& port : at.ports) port.tuning = {};
  at.settings = {};
  for (SwitchPort port = 1; port <= at.last_port(); ++port) {
    switches_.set_filter({index, port}, {});
    checks_changed({index, port});
  }
  if (index == 0) changed_.set(kSubnetNode);
  if (has_own_sm()) {
    at.node.port.lid = before.lid;
    at.node.port.sm_lid = before.sm_lid;
    update_end_ports();
    return;
  }
  for (std::size_t i = 0; i < kUnicastLids; ++i) {
    at.routes.set(Lid(static_cast<std::uint16_t>(i)), std::nullopt);
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) at.groups.set(i, {});
}

bool SubnetManager::set_link(const Attachment& at, std::optional<std::uint8_t> width,
                             std::optional<std::uint8_t> speed) {
  ExternalPort& here = switches_[at.switch_index].ports[at.port];
  const auto set = [&](auto& port) {
    const auto before = std::pair(port.width, port.speed);
    port.width = width.value_or(port.width);
    port.speed = speed.value_or(port.speed);
    return before != std::pair(port.width, port.speed);
  };
  if (here.peer.kind == Peer::Kind::node) {
    const bool has_changed = set(nodes_[here.peer.index]->port);
    if (has_changed) changed_.set(here.peer.index);
    return has_changed;
  }
  const bool has_changed = set(here);
  if (here.peer.kind == Peer::Kind::switch_port && has_changed) {
    (void)set(switches_[here.peer.index].ports[here.peer.port]);
    switches_[at.switch_index].has_changed = switches_[here.peer.index].has_changed = true;
  }
  return has_changed;
}

void SubnetManager::checks_changed(const Attachment& at) {
  const Peer peer = switches_.peer(at.switch_index, at.port);
  if (peer.kind != Peer::Kind::node) return;
  nodes_[peer.index]->checks = switches_.entry_checks(at);
  changed_.set(peer.index);
}

void SubnetManager::route_group(std::size_t group, const NodeSet& receivers) {
  std::vector<Attachment> ports;
  for (auto i = receivers._Find_first(); i < receivers.size(); i = receivers._Find_next(i)) {
    if (nodes_[i]) ports.push_back(nodes_[i]->attachment);
  }
  routing_.set_group(group, ports);
}

bool SubnetManager::insert(NodeIndex index, Node node) {
  if (!is_valid_name(node.name) || by_guid_.contains(node.port.port_guid) ||
      !switches_.is_free(node.attachment)) {
    return false;
  }
  const auto other = find(node.name);
  if (other && !may_be_other_port(index, node, *other)) return false;
  node.other_port = kNoOtherPort;
  by_name_[node.name] = index;
  by_guid_[node.port.port_guid] = index;
  if (has_own_sm()) {
    node.port.pkeys = pkey_table(node, index == kSubnetNode, node.port.pkeys);
    last_lid_ = std::max(last_lid_, node.port.lid);
  }
  std::erase_if(node.addresses, [&](const auto& address) { return node_with(address) != nullptr; });
  switches_.connect(node.attachment, index, {index, node.port.number});
  node.checks = switches_.entry_checks(node.attachment);
  nodes_[index] = std::move(node);
  if (other) link_ports(index, *other);
  claim_lids(index);
  update_end_ports();
  changed_.set(index);
  return true;
}

/// Whether a new node can be a port of the HCA of which `other` is the only one yet.
bool SubnetManager::may_be_other_port(NodeIndex index, const Node& node, NodeIndex other) const {
  const Node& known = *nodes_[other];
  return index != kSubnetNode && other != kSubnetNode && known.other_port == kNoOtherPort &&
         known.port.node_guid == node.port.node_guid && known.port.number != node.port.number;
}

/// Makes two nodes the ports of one HCA.
void SubnetManager::link_ports(NodeIndex one, NodeIndex other) {
  nodes_[one]->other_port = other;
  nodes_[other]->other_port = one;
  const NodeIndex first = hca_of(one, *nodes_[one]);
  by_name_[nodes_[one]->name] = first;
  for (const auto each : {one, other}) {
    switches_.set_hca(nodes_[each]->attachment, first);
    changed_.set(each);
  }
}

void SubnetManager::update_end_ports() {
  const auto is_visible = [&](const Node& node) {
    return node.port.state != PortState::down && is_reached(node);
  };
  end_ports_.clear();
  for (const auto& node : nodes_) {
    if (node && is_visible(*node)) end_ports_.push_back(&*node);
  }
  for (SwitchIndex i = 0; i < switches_.size(); ++i) {
    if (is_visible(switches_[i].node)) end_ports_.push_back(&switches_[i].node);
  }
}

Node* SubnetManager::find_node(NodeIndex index, Error& error) {
  if (index < nodes_.size() && nodes_[index]) return &*nodes_[index];
  error = Error{ENOENT, "there is no node " + std::to_string(index)};
  return nullptr;
}

}  // namespace softib::subnet
