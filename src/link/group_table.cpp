#include "link/group_table.hpp"

#include <algorithm>

#include "wire/mgid.hpp"

namespace ipoib::link {

GroupTable::GroupTable(const GroupDependencies& deps, const HashKey& key)
    : deps_(deps),
      broadcast_(deps, GroupRole::broadcast),
      others_(0, KeyedHash(key)),
      joins_(deps.config.limits.host_joins,
             static_cast<std::uint32_t>(deps.config.limits.host_groups)) {
  broadcast_.set_silence(deps_.config.silence_check);
  update_others(TimePoint());
}

Gid GroupTable::mgid_of(const IpAddress& group) const {
  const std::uint8_t scope = wire::scope_of(broadcast_.mgid());
  return std::visit(
      [&](const auto& any) { return wire::multicast_gid(any, deps_.config.pkey, scope); }, group);
}

Group* GroupTable::find(const Gid& mgid) {
  if (mgid == broadcast_.mgid()) return &broadcast_;
  const auto at = others_.find(mgid);
  return at == others_.end() ? nullptr : &at->second;
}

const Group* GroupTable::joined(const Gid& mgid) {
  const Group* const group = find(mgid);
  return group != nullptr && group->record() != nullptr ? group : nullptr;
}

template <class Act>
void GroupTable::for_each(Act&& act) {
  act(broadcast_);
  arm(broadcast_);
  for (auto& [mgid, group] : others_) {
    act(group);
    arm(group);
  }
}

void GroupTable::join_broadcast(const std::optional<wire::McMemberRecord>& creation) {
  broadcast_.set_creation(creation);
  broadcast_.start();  // which has no deadline
}

/// Sets how often groups are checked after silence, by the size of the subnet. That is not known,
/// but LIDs are assigned densely, so the highest one is about the number of ports.
void GroupTable::on_lid(Lid lid) {
  if (lid.value() <= highest_lid_) return;
  highest_lid_ = lid.value();
  const Config& config = deps_.config;
  const Duration shared = config.silence_check_per_lid * highest_lid_;
  broadcast_.set_silence(std::max(config.silence_check, std::min(shared, config.membership_check)));
}

void GroupTable::on_broadcast_heard(Lid from, TimePoint now) {
  on_lid(from);
  if (broadcast_.on_heard(now)) arm(broadcast_);
}

void GroupTable::on_setup_failed(std::string_view why, TimePoint now) {
  broadcast_.on_setup_failed(why, now);
  arm(broadcast_);
}

void GroupTable::on_attach_failed(const Gid& mgid, TimePoint now) {
  if (Group* const group = find(mgid)) {
    group->on_attach_failed(now);
    arm(*group);
  }
}

void GroupTable::join_others(TimePoint now) {
  update_others(now);  // the scope may be another one than before
}

bool GroupTable::all_nodes_settled() const {
  return std::ranges::all_of(others_, [](const auto& entry) {
    return entry.second.role() != GroupRole::all_nodes || entry.second.is_settled();
  });
}

bool GroupTable::all_settled() const {
  return std::ranges::all_of(others_, [](const auto& entry) { return entry.second.is_settled(); });
}

std::string GroupTable::waiting_for() const {
  if (broadcast_.record() == nullptr) return broadcast_.waiting_for();
  for (const auto& [mgid, group] : others_) {
    if (group.role() == GroupRole::all_nodes && !group.is_settled()) return group.waiting_for();
  }
  return {};
}

void GroupTable::on_new_parameters(TimePoint now) {
  for (auto& [mgid, group] : others_) {
    group.on_new_parameters(now);
    arm(group);
  }
}

void GroupTable::set_host_groups(std::span<const IpAddress> wanted, TimePoint now) {
  const std::size_t count = std::min(wanted.size(), deps_.config.limits.host_groups);
  deps_.out.counters.add(Counter::host_groups_left_out, wanted.size() - count);
  wanted_.assign(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(count));
  update_others(now);
}

void GroupTable::set_routed_groups(const std::set<Gid>& wanted, TimePoint now) {
  if (wanted == routed_) return;
  routed_ = wanted;
  update_others(now);
}

/// Leaves groups that are no longer wanted, and joins new ones if the link has its broadcast group.
/// IPv6 groups of different scopes may map to one MGID.
void GroupTable::update_others(TimePoint now) {
  std::map<Gid, GroupRole> roles;
  for (const Gid& mgid : routed_) roles[mgid] = GroupRole::routed;
  host_groups_.clear();
  for (const IpAddress& address : wanted_) {
    const Gid mgid = mgid_of(address);
    host_groups_.try_emplace(mgid, address);
    roles[mgid] = GroupRole::multicast;
  }
  for (const IpAddress& address : {IpAddress(kAllNodes), IpAddress(kAllNodesOfIpv6)}) {
    roles[mgid_of(address)] = GroupRole::all_nodes;
  }
  for (auto at = others_.begin(); at != others_.end();) {
    const auto wanted = roles.find(at->first);
    if (wanted != roles.end() && wanted->second == at->second.role()) {
      ++at;
    } else {
      at->second.leave();
      at = others_.erase(at);
    }
  }
  joins_wait_ = false;
  for (const auto& [mgid, role] : roles) {
    Group& group = others_.try_emplace(mgid, deps_, role, mgid).first->second;
    if (!deps_.parameters || !group.is_absent()) continue;
    if (role == GroupRole::multicast && !joins_.take(now)) {
      joins_wait_ = true;
      continue;
    }
    group.start();
    arm(group);
  }
}

Group* GroupTable::on_response(const wire::SaResponse& response, TimePoint now) {
  Group* requester = nullptr;
  if (broadcast_.has_requested(response.id)) requester = &broadcast_;
  for (auto& [mgid, group] : others_) {
    if (group.has_requested(response.id)) requester = &group;
  }
  if (requester == nullptr) return nullptr;
  const bool is_member = requester->on_response(response, now);
  arm(*requester);
  return is_member ? requester : nullptr;
}

void GroupTable::on_notice(const Gid& mgid) {
  Group* const group = broadcast_.may_be(mgid) ? &broadcast_ : find(mgid);
  if (group != nullptr) {
    group->on_notice(mgid);
    arm(*group);
  }
}

void GroupTable::on_reregister() {
  for_each([](Group& group) { group.on_reregister(); });
}

void GroupTable::on_lost() {
  for_each([](Group& group) { group.on_lost(); });
  highest_lid_ = 0;  // the port may come up on another subnet
  broadcast_.set_silence(deps_.config.silence_check);
}

void GroupTable::leave() {
  for_each([](Group& group) { group.leave(); });
}

void GroupTable::tick(TimePoint now) {
  while (Group* const group = timers_.pop_due(now)) {
    group->tick(now);
    arm(*group);
  }
  if (joins_wait_ && joins_.next_moment(now) <= now) update_others(now);
}

void GroupTable::append_info(std::vector<GroupInfo>& out) const {
  out.push_back(broadcast_.info());
  for (const auto& [mgid, group] : others_) out.push_back(group.info());
}

std::optional<IpAddress> GroupTable::address_of(const Gid& mgid) const {
  if (const auto joined = host_groups_.find(mgid); joined != host_groups_.end()) {
    return joined->second;
  }
  if (mgid == mgid_of(kAllNodesOfIpv6)) return kAllNodesOfIpv6;
  if (const auto solicited = wire::solicited_node_group(mgid)) return solicited;
  return wire::ipv4_group(mgid);
}

}  // namespace ipoib::link
