#include "softib/subnet/multicast_groups.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ipoib/fair_share.hpp"

namespace softib::subnet {

std::size_t McGroup::full_members() const {
  return static_cast<std::size_t>(std::count_if(
      members.begin(), members.end(),
      [](const auto& entry) { return (entry.second.join_state & kFullMemberStates) != 0; }));
}

NodeSet McGroup::receivers() const {
  NodeSet set;
  for (const auto& [node, member] : members) {
    if ((member.join_state & kReceivingStates) != 0) set.set(node);
  }
  return set;
}

bool MulticastGroups::has_share_left(NodeIndex requester) const {
  const auto held = std::count_if(groups_.begin(), groups_.end(), [&](const auto& group) {
    return group && !group->permanent && group->charged == requester;
  });
  return ipoib::has_fair_share_left(static_cast<std::size_t>(held), kMaxGroups - by_mgid_.size());
}

McGroup* MulticastGroups::create(const ipoib::wire::McMemberRecord& record, NodeIndex requester,
                                 bool permanent) {
  assert(!by_mgid_.contains(record.mgid) && record.mgid.is_multicast());
  if (!permanent && !has_share_left(requester)) return nullptr;
  const auto index = choose_index(record.mgid, record.mlid);
  if (!index) return nullptr;
  McGroup& group = groups_[*index].emplace();
  group.record = record;
  group.record.mlid = group_lid(*index);
  group.permanent = permanent;
  group.charged = requester;
  by_mgid_[record.mgid] = *index;
  changed_.set(*index);
  return &group;
}

McGroup* MulticastGroups::find(const Gid& mgid) {
  const auto found = by_mgid_.find(mgid);
  return found == by_mgid_.end() ? nullptr : &*groups_[found->second];
}

const McGroup* MulticastGroups::find(const Gid& mgid) const {
  const auto found = by_mgid_.find(mgid);
  return found == by_mgid_.end() ? nullptr : &*groups_[found->second];
}

std::uint8_t MulticastGroups::join(McGroup& group, NodeIndex node, std::uint8_t states,
                                   bool proxy) {
  assert(states != 0);
  const bool existed = group.full_members() != 0;
  const auto [entry, is_new] = group.members.try_emplace(node, McMember{states, proxy});
  entry->second.join_state |= states;
  changed_.set(index_of(group));
  if (!existed && group.full_members() != 0) events_.push_back({group.record.mgid, true});
  return entry->second.join_state;
}

std::uint8_t MulticastGroups::leave(McGroup& group, NodeIndex node, std::uint8_t states) {
  const std::size_t index = index_of(group);
  stop_previous(index, node);
  const auto entry = group.members.find(node);
  if (entry == group.members.end()) return 0;
  const bool existed = group.full_members() != 0;
  entry->second.join_state &= static_cast<std::uint8_t>(~states);
  const std::uint8_t left = entry->second.join_state;
  if (left == 0) group.members.erase(entry);
  changed_.set(index);
  if (left == 0 && node == group.charged && !group.members.empty()) {
    group.charged = group.members.begin()->first;
  }
  if (!existed || group.full_members() != 0) return left;

  // The group ends with its last full member.
  events_.push_back({group.record.mgid, false});
  group.members.clear();
  if (!group.permanent) erase(index);
  return 0;
}

void MulticastGroups::remove(NodeIndex node, PKey partition) {
  constexpr std::uint8_t kAllStates = 0x0f;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    const bool is_affected =
        !partition.is_valid() ||
        (groups_[index] && groups_[index]->record.pkey.same_partition(partition));
    if (!is_affected) continue;
    stop_previous(index, node);
    if (groups_[index] && groups_[index]->members.contains(node)) {
      leave(*groups_[index], node, kAllStates);
    }
  }
}

void MulticastGroups::remove_partition(PKey partition) {
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (!groups_[index] || !groups_[index]->record.pkey.same_partition(partition)) continue;
    if (groups_[index]->full_members() != 0) {
      events_.push_back({groups_[index]->record.mgid, false});
    }
    erase(index);
    previous_[index] = GroupForwarding{};
  }
}

void MulticastGroups::restart(ipoib::TimePoint deadline) {
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    previous_[index] = forwarding(index);
    if (!groups_[index]) continue;
    groups_[index]->members.clear();
    if (!groups_[index]->permanent) erase(index);
  }
  events_.clear();
  grace_end_ = deadline;
}

void MulticastGroups::adopt(const std::vector<SubnetSnapshot::GroupEntry>& groups,
                            const NodeSet& active, ipoib::TimePoint deadline) {
  for (const auto& group : groups) {
    if (!is_group(group.mlid)) continue;
    changed_.set(group_index(group.mlid));
    if (!group.forwarding.mgid.is_multicast()) continue;
    const auto same = [&](const auto& other) { return other.mgid == group.forwarding.mgid; };
    if (std::any_of(previous_.begin(), previous_.end(), same)) continue;
    previous_[group_index(group.mlid)] = {group.forwarding.mgid,
                                          group.forwarding.receivers & active};
  }
  grace_end_ = deadline;
}

void MulticastGroups::end_grace() {
  for (std::size_t index = 0; index < previous_.size(); ++index) {
    const GroupForwarding before = forwarding(index);
    previous_[index] = GroupForwarding{};
    if (forwarding(index) != before) changed_.set(index);
  }
  grace_end_ = ipoib::kNever;
}

GroupForwarding MulticastGroups::forwarding(std::size_t index) const {
  assert(index < kMaxGroups);
  GroupForwarding forwarding = previous_[index];
  if (groups_[index]) {
    forwarding.mgid = groups_[index]->record.mgid;
    forwarding.receivers |= groups_[index]->receivers();
  }
  return forwarding;
}

std::bitset<kMaxGroups> MulticastGroups::take_changed() {
  return std::exchange(changed_, std::bitset<kMaxGroups>{});
}

std::vector<McGroupEvent> MulticastGroups::take_events() {
  return std::exchange(events_, std::vector<McGroupEvent>{});
}

std::size_t MulticastGroups::index_of(const McGroup& group) const {
  return group_index(group.record.mlid);
}

std::optional<std::size_t> MulticastGroups::choose_index(const Gid& mgid, Lid wanted) const {
  const auto is_free = [&](std::size_t index) {
    return !groups_[index] && previous_[index].mgid.is_zero();
  };
  for (std::size_t index = 0; index < kMaxGroups; ++index) {
    if (previous_[index].mgid == mgid) return index;
  }
  if (ipoib::is_multicast(wanted)) {
    const std::size_t index = group_index(wanted);
    if (index < kMaxGroups && is_free(index)) return index;
  }
  for (std::size_t index = 0; index < kMaxGroups; ++index) {
    if (is_free(index)) return index;
  }
  return std::nullopt;
}

void MulticastGroups::erase(std::size_t index) {
  by_mgid_.erase(groups_[index]->record.mgid);
  groups_[index].reset();
  changed_.set(index);
}

void MulticastGroups::stop_previous(std::size_t index, NodeIndex node) {
  if (!previous_[index].receivers.test(node)) return;
  previous_[index].receivers.reset(node);
  changed_.set(index);
}

}  // namespace softib::subnet
