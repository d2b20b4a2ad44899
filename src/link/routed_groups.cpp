#include "link/routed_groups.hpp"

#include <algorithm>

#include "ipoib/log.hpp"
#include "ipoib/should_log.hpp"
#include "ipoib/well_known_groups.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

void RoutedGroups::set_families(bool ipv4, bool ipv6) {
  if (ipv4 == ipv4_ && ipv6 == ipv6_) return;
  ipv4_ = ipv4;
  ipv6_ = ipv6;
  deps_.log.info("multicast routing on the interface: {}",
                 ipv4 && ipv6 ? "IPv4 and IPv6" : (ipv4 ? "IPv4" : (ipv6 ? "IPv6" : "none")));
  std::erase_if(groups_, [this](const Gid& mgid) { return !is_routed(mgid); });
  start();
}

void RoutedGroups::on_up(const Gid& broadcast) {
  broadcast_ = broadcast;
  start();
}

void RoutedGroups::on_down() {
  broadcast_.reset();
  groups_.clear();
  start();
}

void RoutedGroups::on_reregister() { start(); }

/// Requests a list, or stops. A response that is outstanding is ignored.
void RoutedGroups::start() {
  request_.reset();
  failures_ = 0;
  list_at_ = kNever;
  if (broadcast_ && (ipv4_ || ipv6_)) request_list();
}

void RoutedGroups::request_list() {
  request_ = deps_.ids.next();
  reported_.clear();
  list_at_ = kNever;
  deps_.out.events.emplace_back(wire::SaRequest{*request_, wire::groups_query(deps_.config.pkey)});
}

bool RoutedGroups::on_response(const wire::SaResponse& response, TimePoint now) {
  if (request_ != response.id) return false;
  request_.reset();
  const auto* const table = std::get_if<wire::McMemberTable>(&response.result);
  if (table == nullptr) {
    ++failures_;
    if (should_log(failures_)) {
      // RFC 4391, 12: a failed operation on multicast groups "SHOULD be logged".
      deps_.log.warn("cannot list the groups to route: {}; trying again",
                     wire::failure_of(response.result).text());
    }
    list_at_ = now + deps_.config.join_backoff.after(failures_, deps_.random);
    return true;
  }
  failures_ = 0;
  take_list(*table);
  list_at_ = now + deps_.random.jittered(deps_.config.membership_check, 75, 125);
  return true;
}

/// Groups that are still listed stay, so that a list beyond the limit always has the same groups.
/// Reports since the request are newer than the list may be.
void RoutedGroups::take_list(const wire::McMemberTable& table) {
  std::set<Gid> listed;
  for (const wire::McMemberRecord& record : table) listed.insert(record.mgid);
  for (const auto& [mgid, exists] : reported_) {
    if (exists) {
      listed.insert(mgid);
    } else {
      listed.erase(mgid);
    }
  }
  std::erase_if(groups_, [&](const Gid& mgid) { return !listed.contains(mgid); });
  for (const Gid& mgid : listed) add(mgid);
}

void RoutedGroups::on_notice(const wire::Notice& notice) {
  const bool exists = notice.trap_number == wire::trap::kGroupCreated;
  const bool is_new = request_ && reported_.size() < deps_.config.limits.routed_groups;
  if (is_new && is_routed(notice.gid)) reported_[notice.gid] = exists;
  if (exists) {
    add(notice.gid);
  } else {
    groups_.erase(notice.gid);
  }
}

void RoutedGroups::tick(TimePoint now) {
  if (list_at_ <= now) request_list();
}

void RoutedGroups::add(const Gid& mgid) {
  if (!is_routed(mgid) || groups_.contains(mgid)) return;
  if (groups_.size() >= deps_.config.limits.routed_groups) {
    return deps_.out.counters.add(Counter::host_groups_left_out);
  }
  groups_.insert(mgid);
}

/// Whether the group belongs to this link and to a routed family, and routers may forward it.
bool RoutedGroups::is_routed(const Gid& mgid) const {
  if (!broadcast_ || mgid == *broadcast_ || !wire::is_ipoib_mgid(mgid)) return false;
  const auto& bytes = mgid.bytes();
  const auto& link = broadcast_->bytes();
  const bool has_pkey = bytes[4] == link[4] && bytes[5] == link[5];
  if (wire::scope_of(mgid) != wire::scope_of(*broadcast_) || !has_pkey) return false;
  if (wire::is_ipv6_mgid(mgid)) return ipv6_ && !wire::solicited_node_group(mgid);
  const auto group = wire::ipv4_group(mgid);
  return ipv4_ && group && is_routable(*group);
}

}  // namespace ipoib::link
