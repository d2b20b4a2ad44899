#include "ethernet/station_groups.hpp"

#include <algorithm>

namespace ipoib::ethernet {

std::vector<IpAddress> StationGroups::on_memberships(
    const std::vector<wire::GroupMembership>& memberships, TimePoint now) {
  std::vector<IpAddress> left;
  for (const auto& [group, is_member] : memberships) {
    const auto at = members_.find(group);
    if (!is_member) {
      if (at == members_.end()) continue;
      // Unless another station says that it listens, too.
      at->second = std::min(at->second, now + kLastMember);
      first_expiry_ = std::min(first_expiry_, at->second);
      left.push_back(group);
    } else if (at != members_.end()) {
      at->second = now + kMembership;
    } else if (members_.size() >= kMax) {
      ++left_out_;
    } else {
      members_.emplace(group, now + kMembership);
      first_expiry_ = std::min(first_expiry_, now + kMembership);
      ++version_;
    }
  }
  return left;
}

void StationGroups::start(TimePoint now) {
  if (query_at_ == kNever) query_at_ = now;
}

bool StationGroups::take_query(TimePoint now) {
  if (query_at_ > now) return false;
  ++queries_;
  query_at_ = now + (queries_ < kStartupQueries ? kStartupInterval : kQueryInterval);
  return true;
}

void StationGroups::tick(TimePoint now) {
  if (first_expiry_ > now) return;
  if (std::erase_if(members_, [now](const auto& one) { return one.second <= now; }) > 0) ++version_;
  first_expiry_ = kNever;
  for (const auto& [group, until] : members_) first_expiry_ = std::min(first_expiry_, until);
}

TimePoint StationGroups::next_deadline() const { return std::min(first_expiry_, query_at_); }

std::vector<IpAddress> StationGroups::all() const {
  std::vector<IpAddress> out;
  out.reserve(members_.size());
  for (const auto& [group, until] : members_) out.push_back(group);
  std::ranges::sort(out);
  return out;
}

}  // namespace ipoib::ethernet
