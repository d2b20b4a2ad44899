#include "ethernet/station_groups.hpp"

#include <algorithm>

namespace ipoib::ethernet {

StationGroups::Outcome StationGroups::on_memberships(
    MacAddress station, const std::vector<wire::GroupMembership>& memberships, TimePoint now) {
  Outcome outcome;
  for (const auto& [group, is_member] : memberships) {
    const auto at = members_.find(group);
    if (!is_member) {
      if (at == members_.end()) continue;
      Member& member = at->second;
      // Unless another station says that it listens, too.
      member.until = std::min(member.until, now + kLastMember);
      member.is_left |= member.station == station;
      first_expiry_ = std::min(first_expiry_, member.until);
      outcome.left.push_back(group);
    } else if (at != members_.end()) {
      renew(at->second, station, now);
    } else if (!add(group, station, now)) {
      ++outcome.left_out;
    }
  }
  left_out_ += outcome.left_out;
  join_waiting(now);
  return outcome;
}

bool StationGroups::add(const IpAddress& group, MacAddress station, TimePoint now) {
  if (members_.size() >= kMax) return false;
  const auto known = holders_.find(station);
  if (known != holders_.end() && known->second.groups >= kShare) return false;
  members_.emplace(group, Member{.until = now + kMembership, .station = station, .heard = now});
  ++holders_[station].groups;
  first_expiry_ = std::min(first_expiry_, now + kMembership);
  ++waiting_;
  return true;
}

/// Charges another station for the group, if the one that was charged has gone, and the other has
/// room.
void StationGroups::renew(Member& member, MacAddress station, TimePoint now) {
  member.until = now + kMembership;
  const bool is_free = member.is_left || member.heard + kMembership <= now;
  if (station != member.station && is_free && holders_[station].groups < kShare) {
    --holders_[member.station].groups;
    ++holders_[station].groups;
    member.station = station;
  }
  if (station != member.station) return;
  member.heard = now;
  member.is_left = false;
}

/// Joins groups that wait, as far as the rates allow. The others are tried again after
/// kJoinInterval.
void StationGroups::join_waiting(TimePoint now) {
  join_at_ = kNever;
  if (waiting_ == 0) return;
  for (auto& [group, member] : members_) {
    if (member.is_joined) continue;
    TokenBucket& own = holders_[member.station].joins;
    if (own.next_moment(now) > now) continue;
    if (!joins_.take(now)) break;
    (void)own.take(now);
    member.is_joined = true;
    --waiting_;
    ++version_;
  }
  if (waiting_ > 0) join_at_ = now + kJoinInterval;
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
  expire(now);
  if (join_at_ <= now) join_waiting(now);
}

void StationGroups::expire(TimePoint now) {
  if (first_expiry_ > now) return;
  first_expiry_ = kNever;
  std::erase_if(members_, [&](const auto& one) {
    const Member& member = one.second;
    if (member.until > now) {
      first_expiry_ = std::min(first_expiry_, member.until);
      return false;
    }
    --holders_[member.station].groups;
    if (member.is_joined) {
      ++version_;
    } else {
      --waiting_;
    }
    return true;
  });
  std::erase_if(holders_, [now](const auto& one) {
    return one.second.groups == 0 && one.second.joins.is_full(now);
  });
}

TimePoint StationGroups::next_deadline() const {
  return std::min({first_expiry_, query_at_, join_at_});
}

std::vector<SavedGroup> StationGroups::save() const {
  std::vector<SavedGroup> out;
  out.reserve(members_.size());
  for (const auto& [group, member] : members_) out.push_back({group, member.station});
  return out;
}

std::vector<IpAddress> StationGroups::all() const {
  std::vector<IpAddress> out;
  out.reserve(members_.size());
  for (const auto& [group, member] : members_) {
    if (member.is_joined) out.push_back(group);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace ipoib::ethernet
