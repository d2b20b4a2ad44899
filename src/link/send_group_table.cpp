#include "link/send_group_table.hpp"

#include <algorithm>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

void SendGroupTable::send(const Gid& mgid, Frame&& frame, bool routable, TimePoint now) {
  Frame taken = std::move(frame);
  SendGroup* const group = find_or_create(mgid, routable);
  if (group == nullptr) return deps_.out.counters.add(Counter::drop_group_limit);
  taken = group->on_packet(std::move(taken), now);
  start_joins();
  if (taken) send_to_routers(mgid, group->is_routable(), std::move(taken), now);
}

/// A full table evicts the oldest group without parked frames.
SendGroup* SendGroupTable::find_or_create(const Gid& mgid, bool routable) {
  if (const auto at = groups_.find(mgid); at != groups_.end()) return &at->second;
  if (groups_.size() >= deps_.config.limits.send_groups) {
    if (known_.empty()) return nullptr;
    deps_.out.counters.add(Counter::groups_evicted);
    known_.front().on_removed(Counter::drop_group_limit, true);
    erase(known_.front());
  }
  SendGroup& made = groups_.try_emplace(mgid, deps_, parking_, mgid, routable).first->second;
  update_list(made);
  return &made;
}

void SendGroupTable::start_joins() {
  while (outstanding_ < deps_.config.limits.group_requests && !waiting_.empty()) {
    SendGroup& group = waiting_.front();
    group.on_turn();
    ++outstanding_;
    update_list(group);
  }
}

bool SendGroupTable::on_response(const wire::SaResponse& response, TimePoint now) {
  const auto at = std::ranges::find_if(
      joining_, [&](const SendGroup& group) { return group.has_requested(response.id); });
  if (at == joining_.end()) return false;
  SendGroup& group = *at;
  --outstanding_;
  std::vector<Frame> parked = group.on_response(response.result, now);
  update_list(group);
  start_joins();
  // The group may be evicted for that of the routers.
  const Gid mgid = group.mgid();
  const bool routable = group.is_routable();
  for (Frame& frame : parked) send_to_routers(mgid, routable, std::move(frame), now);
  return true;
}

void SendGroupTable::send_to_routers(const Gid& missed, bool routable, Frame&& frame,
                                     TimePoint now) {
  Frame taken = std::move(frame);
  const Gid routers = all_routers(missed);
  if (!routable || missed == routers) {
    return deps_.out.counters.add(Counter::drop_no_group);
  }
  deps_.out.counters.add(Counter::multicast_by_routers);
  send(routers, std::move(taken), false, now);
}

/// The MGID of 224.0.0.2 or ff02::2, of the same family as `mgid`.
Gid SendGroupTable::all_routers(const Gid& mgid) const {
  constexpr Ipv4Address kIpv4{0xe0000002};
  constexpr Ipv6Address kIpv6(
      Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  const Config& config = deps_.config;
  return wire::is_ipv6_mgid(mgid) ? wire::multicast_gid(kIpv6, config.pkey, config.scope)
                                  : wire::multicast_gid(kIpv4, config.pkey, config.scope);
}

void SendGroupTable::on_notice(const Gid& mgid) {
  const auto at = groups_.find(mgid);
  if (at == groups_.end()) return;
  if (at->second.on_outdated() == Disposition::erase) erase(at->second);
}

void SendGroupTable::on_reregister() {
  for (auto at = known_.begin(); at != known_.end();) {
    SendGroup& group = *at++;
    if (group.on_outdated() == Disposition::erase) erase(group);
  }
}

void SendGroupTable::clear(Counter why, bool leave) {
  for (auto& [mgid, group] : groups_) group.on_removed(why, leave);
  groups_.clear();
  outstanding_ = 0;
}

void SendGroupTable::tick(TimePoint now) {
  while (SendGroup* const group = timers_.pop_due(now)) {
    if (group->on_deadline(now) == Disposition::erase) {
      erase(*group);
    } else {
      timers_.arm(*group, group->next_deadline());
    }
  }
}

void SendGroupTable::update_list(SendGroup& group) {
  using namespace send_group_state;
  if (group.SendGroupListHook::is_linked()) group.SendGroupListHook::unlink();
  std::visit(Overloaded{
                 [&](const Waiting&) { waiting_.push_back(group); },
                 [&](const send_group_state::Joining&) { joining_.push_back(group); },
                 [&](const Ready&) { known_.push_back(group); },
                 [&](const Missing&) { known_.push_back(group); },
             },
             group.state());
  timers_.arm(group, group.next_deadline());
}

void SendGroupTable::erase(SendGroup& group) { groups_.erase(Gid(group.mgid())); }

void SendGroupTable::append_info(std::vector<GroupInfo>& out) const {
  for (const auto& [mgid, group] : groups_) out.push_back(group.info());
}

}  // namespace ipoib::link
