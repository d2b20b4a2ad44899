// Multicast groups that stations listen to (IGMP and MLD snooping, RFC 4541), with the timers of a
// querier (RFC 3376, 8; RFC 3810, 9): the view asks the stations from time to time, so a bridge
// between them forwards reports and multicast to the TAP, and groups whose stations are gone
// expire.
//
// Each group takes a multicast LID of the subnet, of which a subnet manager may have as few as
// 1,024. So there is a limit for each station, and one for all. The station that has reported a
// group first is charged for it, until only others listen. Joins beyond a rate wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ethernet/station_page.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/keyed_hash.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"
#include "ipoib/token_bucket.hpp"
#include "wire/group_membership.hpp"

namespace ipoib::ethernet {

class StationGroups {
 public:
  static constexpr std::size_t kMax = 384;     ///< groups that stations listen to
  static constexpr std::size_t kShare = 320;   ///< of these, groups of one station
  static constexpr std::uint32_t kJoins = 50;  ///< of one station, per second
  static constexpr std::uint32_t kJoinBurst = 128;
  static constexpr std::uint32_t kAllJoins = 100;  ///< of all stations, per second
  static constexpr std::uint32_t kAllJoinBurst = 256;
  static constexpr Duration kJoinInterval = std::chrono::milliseconds(20);  ///< while some wait
  static constexpr Duration kQueryInterval = std::chrono::seconds(125);
  static constexpr Duration kStartupInterval = std::chrono::seconds(31);
  static constexpr unsigned kStartupQueries = 2;
  /// How long a report counts: twice the query interval, and the time that a host may take to
  /// answer.
  static constexpr Duration kMembership = std::chrono::seconds(260);
  static constexpr Duration kLastMember = std::chrono::seconds(2);  ///< after a leave message

  explicit StationGroups(const HashKey& key)
      : members_(0, KeyedHash(key)), holders_(0, KeyedHash(key)) {}

  struct Outcome {
    /// Groups that somebody has left: the stations are to be asked whether another one listens.
    std::vector<IpAddress> left;
    std::size_t left_out = 0;  ///< groups beyond kShare or kMax
  };
  /// Handles a report or leave message of a station.
  Outcome on_memberships(MacAddress station, const std::vector<wire::GroupMembership>& memberships,
                         TimePoint now);
  /// To call when there are stations to ask.
  void start(TimePoint now);
  /// Whether to send a general query of each family now.
  [[nodiscard]] bool take_query(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  /// Whether somebody listens to the group; also true of a group whose join waits.
  [[nodiscard]] bool contains(const IpAddress& group) const { return members_.contains(group); }
  /// All groups, for the next daemon, in no order.
  [[nodiscard]] std::vector<SavedGroup> save() const;
  /// The groups to be joined now.
  [[nodiscard]] std::vector<IpAddress> all() const;
  /// Changes with all().
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  struct Member {
    TimePoint until;
    MacAddress station;    ///< the one that is charged
    TimePoint heard;       ///< when that one has reported last
    bool is_left = false;  ///< that one has left it
    bool is_joined = false;
  };
  /// The groups that a station is charged for. The record remains until its joins are available
  /// again.
  struct Holder {
    std::size_t groups = 0;
    TokenBucket joins{kJoins, kJoinBurst};
  };

  [[nodiscard]] bool add(const IpAddress& group, MacAddress station, TimePoint now);
  void renew(Member& member, MacAddress station, TimePoint now);
  void join_waiting(TimePoint now);
  void expire(TimePoint now);

  std::unordered_map<IpAddress, Member, KeyedHash> members_;
  std::unordered_map<MacAddress, Holder, KeyedHash> holders_;
  TokenBucket joins_{kAllJoins, kAllJoinBurst};
  std::size_t waiting_ = 0;          ///< members that are not joined
  TimePoint join_at_ = kNever;       ///< when waiting groups may be joined
  TimePoint first_expiry_ = kNever;  ///< not later than the first one
  TimePoint query_at_ = kNever;
  unsigned queries_ = 0;  ///< sent so far
  std::uint64_t version_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace ipoib::ethernet
