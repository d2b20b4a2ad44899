// The partitions of the subnet, and the P_Key tables of its ports.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

using ipoib::Error;
using ipoib::Result;

namespace {

std::vector<Partition>::iterator find_partition(std::vector<Partition>& partitions, PKey pkey) {
  return std::find_if(partitions.begin(), partitions.end(),
                      [&](const auto& other) { return other.pkey.same_partition(pkey); });
}

Error no_partition(PKey pkey) {
  return Error{ENOENT, "the subnet has no partition " + pkey_text(pkey.as_full()) +
                           "; softib show partitions lists them"};
}

}  // namespace

Result<void> SubnetManager::set_membership(NodeIndex index, PKey pkey, Membership as) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  if (!pkey.is_valid())
    return Error{EINVAL, "a P_Key is 0x0001 to 0x7fff, with or without the membership bit 0x8000"};
  auto& partitions = config_.partitions;
  auto partition = find_partition(partitions, pkey);
  if (partition == partitions.end()) {
    if (as == Membership::none) return no_partition(pkey);
    if (partitions.size() == kMaxPartitions) {
      return Error{ENOSPC,
                   "the subnet has " + std::to_string(kMaxPartitions) +
                       " partitions, the maximum: delete one (softib set partition PKEY delete)"};
    }
    Partition made;
    made.pkey = pkey.as_full();
    made.broadcast_group = false;
    partition = partitions.insert(partitions.end(), made);
  }
  if (partition->members.size() >= kMaxNamedMembers && !partition->names(node->name)) {
    return Error{ENOSPC, "the partition names " + std::to_string(kMaxNamedMembers) +
                             " HCAs, the maximum: define it without names, for all HCAs"};
  }
  partition->set(node->name, as);
  for (const auto port : ports_of_hca(index)) assign_pkeys(port);
  assign_pkeys(kSubnetNode);  // the SM is a full member of every partition
  return {};
}

Result<void> SubnetManager::delete_partition(PKey pkey) {
  if (pkey.same_partition(ipoib::kDefaultPKey)) {
    return Error{EINVAL, "the default partition cannot be deleted"};
  }
  auto& partitions = config_.partitions;
  const auto partition = find_partition(partitions, pkey);
  if (partition == partitions.end()) return no_partition(pkey);
  partitions.erase(partition);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]) assign_pkeys(static_cast<NodeIndex>(i));
  }
  return {};
}

Result<void> SubnetManager::move_pkey(NodeIndex index, PKey pkey, std::size_t to) {
  Error error;
  Node* node = find_node(index, error);
  if (node == nullptr) return error;
  auto& table = node->port.pkeys;
  const std::size_t from = pkey.is_valid() ? pkey_index(pkey, table) : kPKeyTableSize;
  if (from == kPKeyTableSize) {
    return Error{ENOENT,
                 "the port is not in that partition; softib show partitions lists its members"};
  }
  if (to >= kPKeyTableSize) {
    return Error{EINVAL, "the index is 0 to " + std::to_string(kPKeyTableSize - 1) +
                             ": a P_Key table has " + std::to_string(kPKeyTableSize) + " entries"};
  }
  if (to == from) return {};
  std::swap(table[from], table[to]);
  changed_.set(index);
  return {};
}

void SubnetManager::assign_pkeys(NodeIndex index) {
  Node& node = *nodes_[index];
  const auto table = pkey_table(node, index == kSubnetNode, node.port.pkeys);
  if (table == node.port.pkeys) return;
  node.port.pkeys = table;
  changed_.set(index);
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
  // Queue pairs refer to a key by its index, so a key that stays keeps its index.
  std::array<PKey, kPKeyTableSize> table{};
  for (auto& key : wanted) {
    const std::size_t at = key.is_valid() ? pkey_index(key, before) : kPKeyTableSize;
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

}  // namespace softib::subnet
