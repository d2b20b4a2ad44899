#include "link/group_table.hpp"

#include <algorithm>

#include "wire/mgid.hpp"

namespace ipoib::link {

GroupTable::GroupTable(const GroupDependencies& deps)
    : deps_(deps),
      broadcast_(deps, "broadcast", wire::broadcast_gid(deps.config.pkey, deps.config.scope),
                 creation_) {
  for (const IpAddress& all_nodes : {IpAddress(kAllNodes), IpAddress(kAllNodesOfIpv6)}) {
    const Gid mgid = mgid_of(all_nodes);
    others_.try_emplace(mgid, deps_, "all-nodes", mgid, creation_template_);
  }
}

Gid GroupTable::mgid_of(const IpAddress& address) const {
  return std::visit(
      [this](const auto& any) {
        return wire::multicast_gid(any, deps_.config.pkey, deps_.config.scope);
      },
      address);
}

bool GroupTable::is_permanent(const Gid& mgid) const {
  return mgid == mgid_of(kAllNodes) || mgid == mgid_of(kAllNodesOfIpv6);
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
  creation_ = creation;
  broadcast_.start();
  arm(broadcast_);
}

void GroupTable::on_setup_failed(TimePoint now) {
  broadcast_.on_setup_failed(now);
  arm(broadcast_);
}

void GroupTable::on_attach_failed(const Gid& mgid, TimePoint now) {
  if (Group* const group = find(mgid)) {
    group->on_attach_failed(now);
    arm(*group);
  }
}

void GroupTable::join_others() {
  for (auto& [mgid, group] : others_) {
    group.start();
    arm(group);
  }
}

/// IPv6 groups of different scopes may map to one MGID.
void GroupTable::set_host_groups(std::span<const IpAddress> wanted) {
  host_groups_.clear();
  for (const IpAddress& address : wanted) {
    if (host_groups_.size() < deps_.config.limits.host_groups) {
      host_groups_.try_emplace(mgid_of(address), address);
    } else {
      deps_.out.counters.add(Counter::host_groups_left_out);
    }
  }
  for (auto at = others_.begin(); at != others_.end();) {
    auto& [mgid, group] = *at;
    if (host_groups_.contains(mgid) || is_permanent(mgid)) {
      ++at;
    } else {
      group.leave();
      at = others_.erase(at);
    }
  }
  for (const auto& [mgid, address] : host_groups_) {
    const auto [at, is_new] =
        others_.try_emplace(mgid, deps_, "multicast", mgid, creation_template_);
    if (!is_new || !creation_template_) continue;
    at->second.start();
    arm(at->second);
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
  if (Group* const group = find(mgid)) {
    group->on_notice();
    arm(*group);
  }
}

void GroupTable::on_reregister() {
  for_each([](Group& group) { group.on_reregister(); });
}

void GroupTable::on_lost() {
  creation_template_.reset();
  for_each([](Group& group) { group.on_lost(); });
}

void GroupTable::leave() {
  creation_template_.reset();
  for_each([](Group& group) { group.leave(); });
}

void GroupTable::tick(TimePoint now) {
  while (Group* const group = timers_.pop_due(now)) {
    group->tick(now);
    arm(*group);
  }
}

void GroupTable::append_info(std::vector<GroupInfo>& out) const {
  out.push_back(broadcast_.info());
  for (const auto& [mgid, group] : others_) {
    out.push_back(group.info());
    const auto joined = host_groups_.find(mgid);
    if (joined != host_groups_.end()) out.back().address = joined->second;
    if (mgid == mgid_of(kAllNodesOfIpv6)) out.back().address = kAllNodesOfIpv6;
  }
}

}  // namespace ipoib::link
