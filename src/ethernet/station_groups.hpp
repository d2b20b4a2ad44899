// Multicast groups that stations listen to (IGMP and MLD snooping, RFC 4541), with the timers of a
// querier (RFC 3376, 8; RFC 3810, 9): the view asks the stations from time to time, so a bridge
// between them forwards reports and multicast to the TAP, and groups whose stations are gone
// expire.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/keyed_hash.hpp"
#include "ipoib/time.hpp"
#include "wire/group_membership.hpp"

namespace ipoib::ethernet {

class StationGroups {
 public:
  static constexpr std::size_t kMax = 1024;  ///< groups that stations listen to
  static constexpr Duration kQueryInterval = std::chrono::seconds(125);
  static constexpr Duration kStartupInterval = std::chrono::seconds(31);
  static constexpr unsigned kStartupQueries = 2;
  /// Twice the query interval, and the time that a host may take to answer.
  static constexpr Duration kMembership = std::chrono::seconds(260);
  static constexpr Duration kLastMember = std::chrono::seconds(2);  ///< after a leave message

  explicit StationGroups(const HashKey& key) : members_(0, KeyedHash(key)) {}

  /// A report or leave message of a station. Returns the groups that somebody has left: the
  /// stations are to be asked whether another one listens.
  std::vector<IpAddress> on_memberships(const std::vector<wire::GroupMembership>& memberships,
                                        TimePoint now);
  /// There are stations to ask.
  void start(TimePoint now);
  /// Whether to send a general query of each family now.
  [[nodiscard]] bool take_query(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  [[nodiscard]] bool contains(const IpAddress& group) const { return members_.contains(group); }
  [[nodiscard]] std::vector<IpAddress> all() const;
  /// Changes with all().
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  std::unordered_map<IpAddress, TimePoint, KeyedHash> members_;  ///< until when
  TimePoint first_expiry_ = kNever;                              ///< not later than the first one
  TimePoint query_at_ = kNever;
  unsigned queries_ = 0;  ///< that were sent
  std::uint64_t version_ = 0;
  std::uint64_t left_out_ = 0;  ///< groups beyond kMax
};

}  // namespace ipoib::ethernet
