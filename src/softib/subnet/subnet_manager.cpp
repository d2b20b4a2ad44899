#include "softib/subnet/subnet_manager.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "softib/core/name.hpp"
#include "softib/subnet/rates.hpp"
#include "wire/sa_records.hpp"

namespace softib::subnet {

using ipoib::Error;
using ipoib::Result;

namespace {

/// OUI of locally administered, individual EUI-64s (bit 0x02 of the first byte).
constexpr std::uint64_t kOui = 0x02'501b;
constexpr unsigned kOuiShift = 40;

constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
  return value ^ value >> 31;
}

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t state = mix(seed + 0x9e3779b97f4a7c15ULL);
  for (const char c : text) state = mix(state ^ static_cast<std::uint8_t>(c));
  return state;
}

}  // namespace

SubnetManager::SubnetManager(SubnetConfig config)
    : config_(std::move(config)), nodes_(kMaxNodes), last_lid_(0) {
  switch_.name = kSwitchName;
  switch_.port = new_port();
  switch_.port.state = PortState::active;
  // Port 0 of a switch has the node's own GUID (IBA 14.2.5.3).
  switch_.port.node_guid = switch_.port.port_guid = make_guids(kSwitchName, 1).node;
  switch_.port.pkeys[0] = ipoib::kDefaultPKey;
  if (!has_own_sm()) {
    changed_.set(kSubnetNode);
    return;
  }
  switch_.port.lid = kSwitchLid;
  const auto sm = add(kSmName);
  assert(sm && *sm == kSubnetNode);
  (void)sm;
  announce_sm();
}

void SubnetManager::adopt(const std::vector<SubnetSnapshot::NodeEntry>& nodes) {
  if (!has_own_sm()) return adopt_configured(nodes);
  for (const auto& entry : nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);
    Node node = entry.node;
    if (entry.index == kSubnetNode && node.name == kSmName && nodes_[kSubnetNode]) {
      (void)remove(kSubnetNode);
    }
    node.port.mtu = mtu_of(node.name);
    if (nodes_[entry.index]) continue;
    if (!is_free(node.port.lid, node.port.lmc)) continue;
    (void)insert(entry.index, std::move(node));
  }
  if (!nodes_[kSubnetNode]) (void)add(kSmName);
  announce_sm();
  routes_.mark_all_changed();
}

Result<NodeIndex> SubnetManager::add(std::string_view name, std::uint8_t port) {
  if (const auto known = find(name)) {
    const unsigned number = nodes_[*known]->port.number;
    if (port == 0 || port == number) return *known;
    return Error{EINVAL, "the HCA '" + std::string(name) + "' is connected by its port " +
                             std::to_string(number)};
  }
  if (port > kMaxHcaPorts) {
    return Error{EINVAL, "an HCA has " + std::to_string(kMaxHcaPorts) + " ports"};
  }
  if (!is_valid_name(name)) return invalid_name("HCA", name);
  if (name == kSwitchName) {
    return Error{EINVAL, "'" + std::string(name) + "' is the switch, not an HCA"};
  }
  // An external SM only finds nodes that have a port of the switch.
  const auto first = nodes_.begin() + (has_own_sm() ? 0 : kSubnetNode + 1);
  const auto last = has_own_sm() ? nodes_.end() : nodes_.begin() + kMaxSwitchPorts;
  const auto free = std::find(first, last, std::nullopt);
  const auto lid = has_own_sm() ? next_lid() : Lid();
  if (free == last || !lid) {
    return Error{ENOSPC,
                 "the subnet is full: it has " + std::to_string(last - first) +
                     " nodes, or no LID is free: remove unused HCAs (softib set hca NAME absent), "
                     "or use another subnet (--subnet)" +
                     (has_own_sm() ? "" : ", or --sm own, which manages more nodes")};
  }
  const auto index = static_cast<NodeIndex>(free - nodes_.begin());
  Node node{std::string(name), new_port()};
  node.port.mtu = mtu_of(name);
  if (port != 0) node.port.number = port;
  const Guids guids = make_guids(name, node.port.number);
  node.port.node_guid = guids.node;
  node.port.port_guid = guids.port;
  if (has_own_sm()) {
    node.port.lid = *lid;
    node.port.lmc = config_.lmc;
    node.port.sm_lid = index == kSubnetNode ? *lid : nodes_[kSubnetNode]->port.lid;
  }
  last_lid_ = *lid;
  const bool is_new = insert(index, std::move(node));
  assert(is_new);
  (void)is_new;
  return index;
}

Result<void> SubnetManager::remove(NodeIndex index) {
  Error error;
  const Node* node = find_node(index, error);
  if (node == nullptr) return error;
  std::erase_if(config_.port_mtus, [&](const PortMtu& each) { return each.hca == node->name; });
  by_name_.erase(node->name);
  by_guid_.erase(node->port.port_guid);
  if (has_own_sm()) release_lids(node->port);
  nodes_[index].reset();
  update_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_port_state(NodeIndex index, PortState state) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.failed) return Error{ENODEV, "the HCA '" + node->name + "' has failed"};
  if (node->port.state == state) return {};
  node->port.set_state(state);
  update_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_failed(NodeIndex index, bool failed) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.failed == failed) return {};
  node->port.failed = failed;
  if (!failed) ++node->port.generation;
  node->port.set_state(failed ? PortState::down : link_up_state());
  update_end_ports();
  changed_.set(index);
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
  release_lids(node->port);
  if (!is_free(lid, node->port.lmc)) {
    claim_lids(index);
    return Error{EINVAL, "LID " + std::to_string(lid.value()) + " is in use, or not a unicast LID"};
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
    port.max_mtu = config_.mtu;
    port.pkeys[0] = ipoib::kDefaultPKey;
  }
  return port;
}

/// Writes the SM's LID to every port.
void SubnetManager::announce_sm() {
  const Lid lid = nodes_[kSubnetNode]->port.lid;
  switch_.port.sm_lid = lid;
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
    return Error{EADDRINUSE,
                 ipoib::to_string(address) + " is an address of the HCA '" + owner->name + "'"};
  }
  if (node->addresses.size() >= kMaxNodeAddresses) {
    return Error{
        ENOSPC, "the HCA '" + node->name + "' has " + std::to_string(kMaxNodeAddresses) +
                    " addresses, which is the limit: take one away (softib set address HCA ADDRESS "
                    "delete)"};
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
                 "the HCA '" + node->name + "' was not given " + ipoib::to_string(address)};
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
  std::erase_if(config_.port_mtus, [&](const PortMtu& each) { return each.hca == node->name; });
  if (mtu != config_.mtu) config_.port_mtus.push_back({node->name, mtu});
  node->port.mtu = mtu;
  changed_.set(index);
  return {};
}

std::uint8_t SubnetManager::mtu_of(std::string_view hca) const {
  const auto& set = config_.port_mtus;
  const auto found = std::ranges::find(set, hca, &PortMtu::hca);
  return found == set.end() ? config_.mtu : found->mtu;
}

void SubnetManager::request_reregistration() {
  for (std::size_t i = kSubnetNode + 1; i < nodes_.size(); ++i) {
    if (!nodes_[i]) continue;
    ++nodes_[i]->port.reregister_count;
    changed_.set(i);
  }
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

std::optional<NodeIndex> SubnetManager::node_at(Lid lid) const { return routes_.at(lid); }

NodeSet SubnetManager::take_changed() { return std::exchange(changed_, NodeSet{}); }

SubnetManager::Guids SubnetManager::make_guids(std::string_view name, std::uint8_t port) const {
  for (std::uint64_t attempt = 0;; ++attempt) {
    // The low four bits are the number of the port.
    const std::uint64_t station = hash(name, config_.seed + attempt) & 0xff'ffff'fff0ULL;
    const std::uint64_t guid = kOui << kOuiShift | station;
    const Guids guids{Guid(guid), Guid(guid + port)};
    const bool is_taken = by_guid_.contains(guids.port) || switch_.port.node_guid == guids.node;
    if (!is_taken) return guids;
  }
}

std::optional<Lid> SubnetManager::next_lid() const {
  // LIDs are taken in ascending order, so that the LID of a removed node is not reused soon.
  const std::uint32_t size = 1U << config_.lmc;
  const std::uint32_t blocks = kSwitchLid.value() / size - 1;
  for (std::uint32_t step = 0; step < blocks; ++step) {
    const std::uint32_t block = (last_lid_.value() / size + step) % blocks + 1;
    const Lid lid(static_cast<std::uint16_t>(block * size));
    if (is_free(lid, config_.lmc)) return lid;
  }
  return std::nullopt;
}

bool SubnetManager::is_free(Lid lid, std::uint8_t lmc) const {
  for (std::uint32_t bits = 0; bits < 1U << lmc; ++bits) {
    const Lid each(static_cast<std::uint16_t>(lid.value() + bits));
    if (!ipoib::is_unicast(each) || each == kSwitchLid || routes_.at(each)) return false;
  }
  return lid == ipoib::base_lid(lid, lmc);
}

void SubnetManager::claim_lids(NodeIndex index) {
  const PortAttributes& port = nodes_[index]->port;
  for (std::uint32_t bits = 0; bits < 1U << port.lmc; ++bits) {
    routes_.set(port.source_lid(static_cast<std::uint8_t>(bits)), index);
  }
}

void SubnetManager::release_lids(const PortAttributes& port) {
  for (std::uint32_t bits = 0; bits < 1U << port.lmc; ++bits) {
    routes_.set(port.source_lid(static_cast<std::uint8_t>(bits)), std::nullopt);
  }
}

bool SubnetManager::insert(NodeIndex index, Node node) {
  if (!is_valid_name(node.name) || by_name_.contains(node.name) ||
      by_guid_.contains(node.port.port_guid)) {
    return false;
  }
  by_name_[node.name] = index;
  by_guid_[node.port.port_guid] = index;
  if (has_own_sm()) {
    node.port.pkeys = pkey_table(node, index == kSubnetNode, node.port.pkeys);
    last_lid_ = std::max(last_lid_, node.port.lid);
  }
  std::erase_if(node.addresses, [&](const auto& address) { return node_with(address) != nullptr; });
  nodes_[index] = std::move(node);
  if (has_own_sm()) claim_lids(index);
  update_end_ports();
  changed_.set(index);
  return true;
}

void SubnetManager::update_end_ports() {
  end_ports_.clear();
  for (const auto& node : nodes_) {
    if (node && node->port.state != PortState::down) end_ports_.push_back(&*node);
  }
  end_ports_.push_back(&switch_);
}

Node* SubnetManager::find_node(NodeIndex index, Error& error) {
  if (index < nodes_.size() && nodes_[index]) return &*nodes_[index];
  error = Error{ENOENT, "there is no node " + std::to_string(index)};
  return nullptr;
}

}  // namespace softib::subnet
