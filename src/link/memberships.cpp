#include "link/memberships.hpp"

#include <cassert>
#include <utility>

#include "ipoib/well_known_groups.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

namespace {

/// The groups that the host has joined. If it routes multicast, it also gets what senders send to
/// the all-routers group because the group of the packet does not exist (RFC 4391, 10).
std::vector<IpAddress> groups_of(const HostView& view) {
  std::vector<IpAddress> groups;
  if (view.routes_ipv4_multicast) groups.emplace_back(kAllRouters);
  if (view.routes_ipv6_multicast) groups.emplace_back(kAllRoutersOfIpv6);
  groups.insert(groups.end(), view.groups.begin(), view.groups.end());
  return groups;
}

/// Whether both MGIDs have the same flags, scope and P_Key.
bool is_of_same_link(const Gid& mgid, const Gid& broadcast) {
  const auto& own = broadcast.bytes();
  const auto& others = mgid.bytes();
  return wire::is_ipoib_mgid(mgid) && std::equal(own.begin(), own.begin() + 2, others.begin()) &&
         std::equal(own.begin() + 4, own.begin() + 6, others.begin() + 4);
}

}  // namespace

Memberships::Memberships(const GroupDependencies& deps, ParkingBudget& parking, const HashKey& key)
    : deps_(deps),
      groups_(deps_, key),
      routed_(deps_),
      send_groups_(deps_, parking, key),
      output_(groups_, send_groups_, deps_.out) {}

void Memberships::join_broadcast() {
  std::optional<wire::McMemberRecord> creation;
  if (const GroupCreation& wanted = deps_.config.creation; wanted.allowed) {
    creation.emplace();
    creation->qkey = wanted.qkey;
    creation->mtu = wanted.mtu;
    creation->rate = wanted.rate;
    creation->sl = wanted.sl;
    creation->flow_label = wanted.flow_label;
    creation->hop_limit = wanted.hop_limit;
    creation->traffic_class = wanted.traffic_class;
  }
  groups_.join_broadcast(creation);
}

void Memberships::on_new_parameters(TimePoint now) {
  groups_.on_new_parameters(now);
  send_groups_.on_new_parameters();
}

void Memberships::go_down(bool can_leave, TimePoint now) {
  if (can_leave) groups_.leave();
  groups_.on_lost();
  routed_.on_down();
  update_routed_groups(now);
  send_groups_.clear(Counter::drop_link_down, can_leave);
}

void Memberships::on_setup_failed(std::string_view why, TimePoint now) {
  groups_.on_setup_failed(why, now);
}

void Memberships::on_reregister() {
  groups_.on_reregister();
  send_groups_.on_reregister();
  routed_.on_reregister();
}

void Memberships::on_notice(const wire::Notice& notice, TimePoint now) {
  routed_.on_notice(notice);
  update_routed_groups(now);
  groups_.on_notice(notice.gid);
  send_groups_.on_notice(notice.gid);
}

Memberships::Response Memberships::on_response(const wire::SaResponse& response, TimePoint now) {
  if (send_groups_.on_response(response, now)) return Response::other;
  if (routed_.on_response(response, now)) {
    update_routed_groups(now);
    return Response::other;
  }
  Group* const group = groups_.on_response(response, now);
  if (group == nullptr) return Response::group;
  if (group == &groups_.broadcast()) return Response::broadcast_joined;
  group->attach();
  return Response::group;
}

void Memberships::on_host_changed(const HostView& view, TimePoint now) {
  host_groups_ = groups_of(view);
  update_host_groups(now);
  routed_.set_families(view.routes_ipv4_multicast, view.routes_ipv6_multicast);
  update_routed_groups(now);
}

void Memberships::set_station_groups(std::vector<IpAddress> groups, TimePoint now) {
  station_groups_ = std::move(groups);
  update_host_groups(now);
}

/// Passes the groups of the host and of stations to the table. It has a limit, which neither can
/// use up alone.
void Memberships::update_host_groups(TimePoint now) {
  const auto first = std::min(station_groups_.size(), deps_.config.limits.station_groups);
  const auto middle = station_groups_.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<IpAddress> all(station_groups_.begin(), middle);
  all.insert(all.end(), host_groups_.begin(), host_groups_.end());
  all.insert(all.end(), middle, station_groups_.end());
  groups_.set_host_groups(all, now);
}

void Memberships::tick(TimePoint now) {
  groups_.tick(now);
  send_groups_.tick(now);
  routed_.tick(now);
}

std::vector<GroupInfo> Memberships::info() const {
  std::vector<GroupInfo> all;
  groups_.append_info(all);
  send_groups_.append_info(all);
  for (GroupInfo& group : all) groups_.add_address(group);
  return all;
}

void Memberships::restore(const std::vector<Gid>& send_groups) {
  for (const Gid& mgid : send_groups) {
    if (is_of_same_link(mgid, broadcast().mgid())) send_groups_.restore(mgid);
  }
}

}  // namespace ipoib::link
