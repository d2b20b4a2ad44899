#include "link/send_group_table.hpp"

#include <algorithm>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "ipoib/well_known_groups.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

namespace {

/// The group that an encapsulated packet is sent to; nullopt if it is malformed. It does not follow
/// from the MGID: ff02::fb and ff05::fb have the same.
std::optional<IpAddress> group_in(ConstBytes frame) {
  const ConstBytes packet = frame.subspan(wire::kEncapsulationSize);
  if (wire::ip_version(packet) == 6) {
    const auto header = wire::Ipv6Header::parse(packet);
    return header ? std::optional<IpAddress>(header->destination) : std::nullopt;
  }
  const auto header = wire::Ipv4Header::parse(packet);
  return header ? std::optional<IpAddress>(header->destination) : std::nullopt;
}

bool may_leave_link(ConstBytes frame) {
  const auto group = group_in(frame);
  return group && std::visit([](const auto& any) { return is_routable(any); }, *group);
}

}  // namespace

void SendGroupTable::send(const Gid& mgid, Frame&& frame, TimePoint now) {
  Frame taken = std::move(frame);
  SendGroup* const group = find_or_create(mgid);
  if (group == nullptr) return deps_.out.counters.add(Counter::drop_group_limit);
  if (!group->address()) group->set_address(address_of(mgid, std::as_const(taken).bytes()));
  taken = group->on_packet(std::move(taken), now);
  start_joins();
  if (taken) send_to_routers(mgid, std::move(taken), now);
}

void SendGroupTable::restore(const Gid& mgid) {
  if (groups_.size() >= deps_.config.limits.send_groups) return;
  (void)find_or_create(mgid);
  start_joins();
}

std::vector<Gid> SendGroupTable::joined() const {
  std::vector<Gid> out;
  for (const auto& [mgid, group] : groups_) {
    if (group.info().state == GroupState::send_only) out.push_back(mgid);
  }
  return out;
}

/// A full table evicts the oldest group without parked frames.
SendGroup* SendGroupTable::find_or_create(const Gid& mgid) {
  if (const auto at = groups_.find(mgid); at != groups_.end()) return &at->second;
  if (groups_.size() >= deps_.config.limits.send_groups) {
    if (known_.empty()) return nullptr;
    deps_.out.counters.add(Counter::groups_evicted);
    known_.front().on_removed(Counter::drop_group_limit, true);
    erase(known_.front());
  }
  SendGroup& made = groups_.try_emplace(mgid, deps_, parking_, failures_, mgid).first->second;
  update_list(made);
  return &made;
}

void SendGroupTable::start_joins() {
  while (requests_ < deps_.config.limits.group_requests && !waiting_.empty()) {
    SendGroup& group = waiting_.front();
    group.on_turn();
    ++requests_;
    update_list(group);
  }
}

bool SendGroupTable::on_response(const wire::SaResponse& response, TimePoint now) {
  const auto at = std::ranges::find_if(
      outstanding_, [&](const SendGroup& group) { return group.has_requested(response.id); });
  if (at == outstanding_.end()) return false;
  SendGroup& group = *at;
  --requests_;
  std::vector<Frame> parked = group.on_response(response.result, now);
  update_list(group);
  start_joins();
  const Gid mgid = group.mgid();  // the group may be evicted for that of the routers
  for (Frame& frame : parked) send_to_routers(mgid, std::move(frame), now);
  return true;
}

void SendGroupTable::send_to_routers(const Gid& missed, Frame&& frame, TimePoint now) {
  Frame taken = std::move(frame);
  const Gid routers = all_routers(missed);
  if (missed == routers || !may_leave_link(std::as_const(taken).bytes())) {
    return deps_.out.counters.add(Counter::multicast_unheard);
  }
  deps_.out.counters.add(Counter::multicast_by_routers);
  send(routers, std::move(taken), now);
}

/// The MGID of 224.0.0.2 or ff02::2, of the same family as `mgid`.
Gid SendGroupTable::all_routers(const Gid& mgid) const {
  const std::uint8_t scope = wire::scope_of(mgid);
  return wire::is_ipv6_mgid(mgid) ? wire::multicast_gid(kAllRoutersOfIpv6, deps_.config.pkey, scope)
                                  : wire::multicast_gid(kAllRouters, deps_.config.pkey, scope);
}

/// The address of the group. A packet that is sent to the routers has another group. IPv6 groups
/// that differ only in their scope have one MGID: the first one counts.
std::optional<IpAddress> SendGroupTable::address_of(const Gid& mgid, ConstBytes frame) const {
  const auto group = group_in(frame);
  if (!group) return std::nullopt;
  const auto to_mgid = [&](const auto& any) {
    return wire::multicast_gid(any, deps_.config.pkey, wire::scope_of(mgid));
  };
  if (std::visit(to_mgid, *group) == mgid) return group;
  if (mgid == all_routers(mgid)) {
    return wire::is_ipv6_mgid(mgid) ? IpAddress(kAllRoutersOfIpv6) : IpAddress(kAllRouters);
  }
  return std::nullopt;
}

void SendGroupTable::on_notice(const Gid& mgid) {
  const auto at = groups_.find(mgid);
  if (at == groups_.end()) return;
  if (at->second.on_outdated() == Disposition::erase) erase(at->second);
  start_joins();
}

template <class Stimulus>
void SendGroupTable::erase_if(List& list, Stimulus&& stimulus) {
  for (auto at = list.begin(); at != list.end();) {
    SendGroup& group = *at++;
    if (stimulus(group) == Disposition::erase) erase(group);
  }
}

void SendGroupTable::on_reregister() {
  const auto stimulus = [](SendGroup& group) { return group.on_outdated(); };
  erase_if(known_, stimulus);
  erase_if(outstanding_, stimulus);
  start_joins();
}

void SendGroupTable::on_new_parameters() {
  const auto stimulus = [](SendGroup& group) { return group.on_new_parameters(); };
  erase_if(known_, stimulus);
  erase_if(outstanding_, stimulus);
  start_joins();
}

void SendGroupTable::clear(Counter why, bool leave) {
  for (auto& [mgid, group] : groups_) {
    group.on_removed(why, leave);
    group.on_erased();
  }
  groups_.clear();
  requests_ = 0;
}

void SendGroupTable::tick(TimePoint now) {
  while (SendGroup* const group = timers_.pop_due(now)) {
    const bool may_request = requests_ < deps_.config.limits.group_requests;
    if (group->on_deadline(may_request, now) == Disposition::erase) {
      erase(*group);
    } else if (group->is_outstanding()) {
      ++requests_;
      update_list(*group);
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
                 [&](const send_group_state::Joining&) { outstanding_.push_back(group); },
                 [&](const Ready&) { known_.push_back(group); },
                 [&](const send_group_state::Confirming&) { outstanding_.push_back(group); },
                 [&](const Missing&) { known_.push_back(group); },
             },
             group.state());
  timers_.arm(group, group.next_deadline());
}

void SendGroupTable::erase(SendGroup& group) {
  if (group.is_outstanding()) --requests_;
  group.on_erased();
  groups_.erase(Gid(group.mgid()));
}

void SendGroupTable::append_info(std::vector<GroupInfo>& out) const {
  for (const auto& [mgid, group] : groups_) out.push_back(group.info());
}

}  // namespace ipoib::link
