// The multicast groups of the subnet: who is in them, which MLID they have, whom a packet reaches.
//
// A group lives as long as it has a full member (of either kind), or for ever if the administrator
// made it (IBA 15.2.5.17.2). After a restart the groups of the earlier subnet are unknown, since
// members have to tell their parameters again; but its forwarding stays in force until a grace
// time is over, and each MLID is kept for the MGID that had it.
#pragma once

#include <bitset>
#include <map>
#include <optional>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/subnet/subnet_types.hpp"
#include "wire/mc_member_record.hpp"

namespace softib::subnet {

inline constexpr std::uint8_t kFullMemberStates =
    ipoib::wire::McMemberRecord::kFullMember | ipoib::wire::McMemberRecord::kSendOnlyFullMember;
inline constexpr std::uint8_t kReceivingStates =
    ipoib::wire::McMemberRecord::kFullMember | ipoib::wire::McMemberRecord::kNonMember;

struct McMember {
  std::uint8_t join_state = 0;  ///< OR of McMemberRecord::JoinState, never 0
  bool proxy = false;           ///< joined by another port (IBA 15.2.5.17, ProxyJoin)
};

struct McGroup {
  /// What all members share; PortGID, JoinState and ProxyJoin are zero.
  ipoib::wire::McMemberRecord record;
  bool permanent = false;
  std::map<NodeIndex, McMember> members;

  [[nodiscard]] std::size_t full_members() const;
  [[nodiscard]] NodeSet receivers() const;
};

/// A group got its first full member, or lost its last one: traps 66 and 67.
struct McGroupEvent {
  Gid mgid;
  bool created = false;
};

class MulticastGroups {
 public:
  /// Makes a group for `record.mgid`, which has none. Its MLID is the one that the MGID had before
  /// a restart, else `record.mlid` if that is free, else the lowest free one. Null: none is free.
  McGroup* create(const ipoib::wire::McMemberRecord& record, bool permanent);
  [[nodiscard]] McGroup* find(const Gid& mgid);
  [[nodiscard]] const McGroup* find(const Gid& mgid) const;
  /// All groups by MLID.
  [[nodiscard]] const std::vector<std::optional<McGroup>>& all() const { return groups_; }

  /// Adds states to a port's membership; returns all its states now.
  std::uint8_t join(McGroup& group, NodeIndex node, std::uint8_t states, bool proxy);
  /// Takes states away; returns what is left. The group may be gone afterwards.
  std::uint8_t leave(McGroup& group, NodeIndex node, std::uint8_t states);
  /// The port is gone, or down: out of all groups.
  void drop(NodeIndex node);
  /// The port is no longer in this partition.
  void drop(NodeIndex node, PKey partition);

  /// Forgets all groups that are not permanent, and all members, but goes on forwarding by what
  /// there was until `deadline`.
  void restart(ipoib::TimePoint deadline);
  /// The same for what another subnet left behind, before the permanent groups are made. Only nodes
  /// that are `alive` go on receiving.
  void adopt(const std::vector<SubnetSnapshot::GroupEntry>& groups, const NodeSet& alive,
             ipoib::TimePoint deadline);
  [[nodiscard]] ipoib::TimePoint grace_end() const { return grace_end_; }
  void end_grace();

  /// By group_index(mlid): the MGID and who gets its packets.
  [[nodiscard]] GroupForwarding forwarding(std::size_t index) const;
  /// Groups whose forwarding has changed since the last call.
  [[nodiscard]] std::bitset<kMaxGroups> take_changed();
  [[nodiscard]] bool has_events() const { return !events_.empty(); }
  [[nodiscard]] std::vector<McGroupEvent> take_events();

 private:
  [[nodiscard]] std::size_t index_of(const McGroup& group) const;
  [[nodiscard]] std::optional<std::size_t> choose_index(const Gid& mgid, Lid wanted) const;
  void erase(std::size_t index);
  void forget_earlier(std::size_t index, NodeIndex node);

  std::vector<std::optional<McGroup>> groups_{kMaxGroups};
  std::map<Gid, std::size_t> by_mgid_;
  /// What was forwarded before a restart; a zero MGID marks a free place.
  std::vector<GroupForwarding> earlier_{kMaxGroups};
  ipoib::TimePoint grace_end_ = ipoib::kNever;
  std::bitset<kMaxGroups> changed_;
  std::vector<McGroupEvent> events_;
};

}  // namespace softib::subnet
