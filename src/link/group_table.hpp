// The groups that the host is a member of (RFC 4391, 4 and 5): the broadcast and all-nodes groups
// while the link is up, and those that the host's programs have joined.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "ipoib/keyed_hash.hpp"
#include "ipoib/token_bucket.hpp"
#include "ipoib/well_known_groups.hpp"
#include "link/group.hpp"

namespace ipoib::link {

class GroupTable {
 public:
  /// The key is for the table of groups that programs join.
  GroupTable(const GroupDependencies& deps, const HashKey& key);
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  [[nodiscard]] Group& broadcast() { return broadcast_; }
  [[nodiscard]] const Group& broadcast() const { return broadcast_; }
  /// The MGID of a group, with the scope of the broadcast group (RFC 4391, 4).
  [[nodiscard]] Gid mgid_of(const IpAddress& group) const;
  /// The group of this MGID if the host is a member; else null.
  [[nodiscard]] const Group* joined(const Gid& mgid);

  // --- Stimuli ---------------------------------------------------------------------------------
  void join_broadcast(const std::optional<wire::McMemberRecord>& creation);
  /// The port has this LID, given without its path bits.
  void on_lid(Lid lid);
  /// Another port has sent a datagram to the broadcast group.
  void on_broadcast_heard(Lid from, TimePoint now);
  void on_setup_failed(std::string_view why, TimePoint now);
  void on_attach_failed(const Gid& mgid, TimePoint now);
  /// The broadcast group is joined: joins those of the other groups that have not been started.
  void join_others(TimePoint now);
  /// Whether there has been a response to the join of each all-nodes group.
  [[nodiscard]] bool all_nodes_settled() const;
  /// Whether there has been a response to the join of each group.
  [[nodiscard]] bool all_settled() const;
  /// What the table waits for, for the operator; empty if the broadcast and all-nodes groups are
  /// joined or refused.
  [[nodiscard]] std::string waiting_for() const;
  /// The broadcast group has other parameters now.
  void on_new_parameters(TimePoint now);
  /// The groups that a multicast router on the host receives.
  void set_routed_groups(const std::set<Gid>& wanted, TimePoint now);
  /// The groups that the host has joined now, except those that it is always a member of. Joins
  /// beyond the rate wait.
  void set_host_groups(std::span<const IpAddress> wanted, TimePoint now);
  /// Returns the group that the host has joined, or is still a member of, by that response; else
  /// null.
  [[nodiscard]] Group* on_response(const wire::SaResponse& response, TimePoint now);
  void on_notice(const Gid& mgid);
  void on_reregister();
  /// The port has lost all memberships. The LIDs that have been seen are forgotten, too.
  void on_lost();
  void leave();
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const {
    const auto next_join = joins_wait_ ? joins_.next_moment(TimePoint()) : kNever;
    return std::min(timers_.next(), next_join);
  }

  void append_info(std::vector<GroupInfo>& out) const;
  /// Sets the address of the IP group if it is known: if the host has joined it, or the MGID
  /// determines it.
  void add_address(GroupInfo& group) const {
    if (!group.address) group.address = address_of(group.mgid);
  }

 private:
  template <class Act>
  void for_each(Act&& act);
  void arm(Group& group) { timers_.arm(group, group.next_deadline()); }
  /// The group with this MGID; null if the host has not joined it.
  [[nodiscard]] Group* find(const Gid& mgid);
  [[nodiscard]] std::optional<IpAddress> address_of(const Gid& mgid) const;
  void update_others(TimePoint now);
  GroupDependencies deps_;
  Group broadcast_;
  std::unordered_map<Gid, Group, KeyedHash> others_;
  std::vector<IpAddress> wanted_;  ///< groups that the host has joined
  std::set<Gid> routed_;
  /// The groups of wanted_ by MGID; one address for each, although several may map to it.
  std::map<Gid, IpAddress> host_groups_;
  TokenBucket joins_;
  bool joins_wait_ = false;
  unsigned highest_lid_ = 0;  ///< that has been seen: at most so many ports are on the subnet
  cache::TimerQueue<Group> timers_;
};

}  // namespace ipoib::link
