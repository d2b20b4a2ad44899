#include "softib/core/subnet_manager.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "softib/core/rates.hpp"
#include "wire/sa_records.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

/// Locally administered EUI-64s (the 0x02 of the first octet) of individual stations.
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

bool is_printable(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNodeName &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::size_t find_base(const std::array<PKey, kPKeyTableSize>& table, PKey key) {
  const auto same = [&](PKey other) { return other.is_valid() && other.same_partition(key); };
  return static_cast<std::size_t>(std::find_if(table.begin(), table.end(), same) - table.begin());
}

}  // namespace

SubnetManager::SubnetManager(SubnetConfig config)
    : config_(std::move(config)), nodes_(kMaxNodes), last_lid_(0) {
  switch_.name = kSwitchName;
  switch_.port = new_port();
  switch_.port.state = PortState::active;
  // Port 0 of a switch has the node's own GUID (IBA 14.2.5.3).
  switch_.port.node_guid = switch_.port.port_guid = make_guids(kSwitchName).node;
  switch_.port.pkeys[0] = ipoib::kDefaultPKey;
  if (!is_own()) {
    changed_.set(kSwitchNode);
    return;
  }
  switch_.port.lid = kSwitchLid;
  const auto sm = add(kSmName);
  assert(sm && *sm == kSmNode && nodes_[kSmNode]->port.lid == kSmLid);
  (void)sm;
}

void SubnetManager::adopt(const std::vector<SubnetSnapshot::NodeEntry>& nodes) {
  if (!is_own()) return adopt_programmed(nodes);
  for (const auto& entry : nodes) {
    if (entry.index >= kMaxNodes) continue;
    changed_.set(entry.index);  // whatever becomes of it
    Node node = entry.node;
    if (entry.index == kSmNode && node.name == kSmName && nodes_[kSmNode]) {
      (void)remove(kSmNode);
    }
    node.port.mtu = config_.mtu;
    if (nodes_[entry.index]) continue;
    if (!is_free(node.port.lid)) continue;
    (void)insert(entry.index, std::move(node));
  }
  if (!nodes_[kSmNode]) (void)add(kSmName);
  for (auto& node : nodes_) {
    if (node) node->port.sm_lid = nodes_[kSmNode]->port.lid;
  }
  routes_.doubt();
}

Result<NodeIndex> SubnetManager::add(std::string_view name) {
  if (const auto known = find(name)) return *known;
  if (!is_printable(name) || name == kSwitchName) {
    return Error{EINVAL, "'" + std::string(name) + "' is no name for an HCA"};
  }
  // What has no port of the switch, no manager elsewhere would find.
  const auto first = nodes_.begin() + (is_own() ? 0 : kSwitchNode + 1);
  const auto last = is_own() ? nodes_.end() : nodes_.begin() + kMaxSwitchPorts;
  const auto free = std::find(first, last, std::nullopt);
  const auto lid = is_own() ? next_lid() : Lid();
  if (free == last || !lid) {
    return Error{ENOSPC, "the subnet is full: it has " + std::to_string(last - first) + " nodes"};
  }
  const auto index = static_cast<NodeIndex>(free - nodes_.begin());
  const Guids guids = make_guids(name);
  Node node{std::string(name), new_port()};
  node.port.node_guid = guids.node;
  node.port.port_guid = guids.port;
  node.port.lid = *lid;
  if (index != kSmNode && nodes_[kSmNode]) node.port.sm_lid = nodes_[kSmNode]->port.lid;
  if (is_own() && index == kSmNode) node.port.sm_lid = *lid;
  last_lid_ = *lid;
  const bool is_new = insert(index, std::move(node));
  assert(is_new);
  (void)is_new;
  return index;
}

Result<void> SubnetManager::remove(NodeIndex index) {
  Error error;
  const Node* gone = find_node(index, error);
  if (gone == nullptr) return error;
  by_name_.erase(gone->name);
  by_guid_.erase(gone->port.port_guid);
  if (is_own()) routes_.set(gone->port.lid, std::nullopt);
  nodes_[index].reset();
  list_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_port_state(NodeIndex index, PortState state) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.has_failed()) return Error{ENODEV, "the HCA '" + node->name + "' has failed"};
  if (node->port.state == state) return {};
  node->port.state = state;
  list_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_failed(NodeIndex index, bool failed) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.has_failed() == failed) return {};
  ++node->port.life;
  node->port.state = failed ? PortState::down : link_up();
  list_end_ports();
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_lid(NodeIndex index, Lid lid) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (node->port.lid == lid) return {};
  if (!is_free(lid)) {
    return Error{EINVAL, "LID " + std::to_string(lid.value()) + " is taken, or no unicast LID"};
  }
  routes_.set(node->port.lid, std::nullopt);
  routes_.set(lid, index);
  node->port.lid = lid;
  changed_.set(index);
  if (index != kSmNode) return {};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]) continue;
    nodes_[i]->port.sm_lid = lid;
    changed_.set(i);
  }
  return {};
}

Result<void> SubnetManager::set_mtu(NodeIndex index, std::uint8_t mtu) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (!is_mtu(mtu) || mtu > node->port.max_mtu) {
    return Error{EINVAL, "an MTU is 256, 512, 1024, 2048 or 4096 octets"};
  }
  node->port.mtu = mtu;
  changed_.set(index);
  return {};
}

Result<void> SubnetManager::set_membership(NodeIndex index, PKey pkey, Membership as) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (!pkey.is_valid()) return Error{EINVAL, "0 and 0x8000 are no P_Keys"};
  auto& partitions = config_.partitions;
  auto partition = std::find_if(partitions.begin(), partitions.end(),
                                [&](const auto& other) { return other.pkey.same_partition(pkey); });
  if (partition == partitions.end()) {
    if (partitions.size() == kMaxPartitions) {
      return Error{ENOSPC, "the subnet has " + std::to_string(kMaxPartitions) + " partitions"};
    }
    Partition made;
    made.pkey = pkey.as_full();
    made.broadcast_group = false;
    partition = partitions.insert(partitions.end(), made);
  }
  if (partition->members.size() >= kMaxNamedMembers) {
    return Error{ENOSPC, "the partition names " + std::to_string(kMaxNamedMembers) + " HCAs"};
  }
  partition->set(node->name, as);
  assign_pkeys(index);
  assign_pkeys(kSmNode);  // a member of every partition, of a new one as well
  return {};
}

Result<void> SubnetManager::move_pkey(NodeIndex index, PKey pkey, std::size_t place) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  auto& table = node->port.pkeys;
  const std::size_t at = pkey.is_valid() ? find_base(table, pkey) : kPKeyTableSize;
  if (at == kPKeyTableSize) return Error{ENOENT, "the port is not in that partition"};
  if (place >= kPKeyTableSize) {
    return Error{EINVAL, "a P_Key table has " + std::to_string(kPKeyTableSize) + " places"};
  }
  if (place == at) return {};
  std::swap(table[at], table[place]);
  changed_.set(index);
  return {};
}

void SubnetManager::assign_pkeys(NodeIndex index) {
  Node& node = *nodes_[index];
  const auto table = pkey_table(node, index == kSmNode, node.port.pkeys);
  if (table == node.port.pkeys) return;
  node.port.pkeys = table;
  changed_.set(index);
}

void SubnetManager::ask_to_reregister() {
  for (std::size_t i = kSmNode + 1; i < nodes_.size(); ++i) {
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

SubnetManager::Guids SubnetManager::make_guids(std::string_view name) const {
  for (std::uint64_t attempt = 0;; ++attempt) {
    // The last four bits are for the ports of the node.
    const std::uint64_t station = hash(name, config_.seed + attempt) & 0xff'ffff'fff0ULL;
    const std::uint64_t guid = kOui << kOuiShift | station;
    const Guids guids{Guid(guid), Guid(guid + 1)};
    const bool is_taken = by_guid_.contains(guids.port) || switch_.port.node_guid == guids.node;
    if (!is_taken) return guids;
  }
}

std::optional<Lid> SubnetManager::next_lid() const {
  // Ascending, so that the LID of a node that is gone does not come back soon.
  for (std::uint32_t step = 1; step < kSwitchLid.value(); ++step) {
    const std::uint32_t number = (last_lid_.value() + step - 1) % (kSwitchLid.value() - 1) + 1;
    const Lid lid(static_cast<std::uint16_t>(number));
    if (is_free(lid)) return lid;
  }
  return std::nullopt;
}

bool SubnetManager::is_free(Lid lid) const {
  return ipoib::is_unicast(lid) && lid != kSwitchLid && !routes_.at(lid);
}

std::array<PKey, kPKeyTableSize> SubnetManager::pkey_table(
    const Node& node, bool is_sm, const std::array<PKey, kPKeyTableSize>& before) const {
  std::array<PKey, kPKeyTableSize> wanted{};
  for (std::size_t i = 0; i < config_.partitions.size(); ++i) {
    const Partition& partition = config_.partitions[i];
    const auto as = is_sm ? Membership::full : partition.membership(node.name);
    if (as == Membership::full) wanted[i] = partition.pkey;
    if (as == Membership::limited) wanted[i] = PKey(partition.pkey.base());
  }
  // Queue pairs refer to a key by its index: what stays, stays where it is.
  std::array<PKey, kPKeyTableSize> table{};
  for (auto& key : wanted) {
    const std::size_t at = key.is_valid() ? find_base(before, key) : kPKeyTableSize;
    if (at != kPKeyTableSize) table[at] = std::exchange(key, PKey());
  }
  for (const PKey key : wanted) {
    if (!key.is_valid()) continue;
    const auto free = std::find(table.begin(), table.end(), PKey());
    assert(free != table.end());
    *free = key;
  }
  return table;
}

bool SubnetManager::insert(NodeIndex index, Node node) {
  if (!is_printable(node.name) || by_name_.contains(node.name) ||
      by_guid_.contains(node.port.port_guid)) {
    return false;
  }
  by_name_[node.name] = index;
  by_guid_[node.port.port_guid] = index;
  if (is_own()) {
    node.port.pkeys = pkey_table(node, index == kSmNode, node.port.pkeys);
    routes_.set(node.port.lid, index);
    last_lid_ = std::max(last_lid_, node.port.lid);
  }
  nodes_[index] = std::move(node);
  list_end_ports();
  changed_.set(index);
  return true;
}

void SubnetManager::list_end_ports() {
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

std::uint8_t port_rate(const PortAttributes& port) {
  const std::uint32_t wanted = ipoib::wire::link_mbps(port.width, port.speed);
  for (std::uint8_t code = 2; code <= 24; ++code) {
    if (ipoib::wire::rate_mbps(code) == wanted) return code;
  }
  return 2;
}

PKey find_pkey(const PortAttributes& port, PKey partition) {
  const std::size_t at = find_base(port.pkeys, partition);
  return at == kPKeyTableSize ? PKey() : port.pkeys[at];
}

PKey shared_pkey(const PortAttributes& from, const PortAttributes& to, PKey only) {
  for (const PKey key : from.pkeys) {
    if (!key.is_valid() || (only.is_valid() && !key.same_partition(only))) continue;
    if (const PKey other = find_pkey(to, key); key.admits(other)) return key;
  }
  return PKey();
}

PKey shared_pkey(const Node& from, const Node& to, PKey only) {
  if (&from != &to) return shared_pkey(from.port, to.port, only);
  if (only.is_valid()) return find_pkey(from.port, only);
  const auto valid = [](PKey key) { return key.is_valid(); };
  const auto first = std::find_if(from.port.pkeys.begin(), from.port.pkeys.end(), valid);
  return first == from.port.pkeys.end() ? PKey() : *first;
}

}  // namespace softib
