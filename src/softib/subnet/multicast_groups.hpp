// The multicast groups of the subnet: members, MLIDs and receivers.
//
// A group exists as long as it has a full member (of either kind), or permanently if the partition
// configuration created it (IBA 15.2.5.17.2). A restart discards all groups, and members must join
// again with their parameters. A group is charged to the port that has created it, and when that
// leaves to another member, so that no port can take all MLIDs. Until the end of a grace period the
// former receivers keep receiving, and each MLID stays reserved for its MGID.
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
  bool proxy = false;  ///< joined on behalf of the port by another one (IBA 15.2.5.17, ProxyJoin)
};

struct McGroup {
  /// Parameters common to all members; PortGID, JoinState and ProxyJoin mean nothing.
  ipoib::wire::McMemberRecord record;
  bool permanent = false;
  NodeIndex charged = 0;  ///< the port that occupies the MLID
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
  /// Creates a group for `record.mgid`, which must not exist. Its MLID is the one that the MGID had
  /// before a restart, else `record.mlid` if free, else the lowest free one. Returns null if no
  /// MLID is free, or if `requester` has its fair share of them, unless the group is permanent.
  /// MLIDs that are reserved after a restart count as free.
  McGroup* create(const ipoib::wire::McMemberRecord& record, NodeIndex requester,
                  bool permanent = false);
  [[nodiscard]] McGroup* find(const Gid& mgid);
  [[nodiscard]] const McGroup* find(const Gid& mgid) const;
  /// All groups by MLID.
  [[nodiscard]] const std::vector<std::optional<McGroup>>& all() const { return groups_; }

  /// Adds join states to a port's membership; returns its join states afterwards.
  std::uint8_t join(McGroup& group, NodeIndex node, std::uint8_t states, bool proxy);
  /// Removes join states; returns the remaining ones. May delete the group.
  std::uint8_t leave(McGroup& group, NodeIndex node, std::uint8_t states);
  /// Removes a node from all groups, or from those of `partition` if it is valid.
  void remove(NodeIndex node, PKey partition = PKey());

  /// Deletes the groups of a partition, permanent ones included.
  void remove_partition(PKey partition);

  /// Deletes all groups that are not permanent, and all members. Until `deadline` the former
  /// receivers keep receiving.
  void restart(ipoib::TimePoint deadline);
  /// Continues the forwarding of an earlier subnet process until `deadline`, to the `active` nodes.
  /// Must be called before the permanent groups are created.
  void adopt(const std::vector<SubnetSnapshot::GroupEntry>& groups, const NodeSet& active,
             ipoib::TimePoint deadline);
  [[nodiscard]] ipoib::TimePoint grace_end() const { return grace_end_; }
  void end_grace();

  /// MGID and receivers, by group_index(mlid).
  [[nodiscard]] GroupForwarding forwarding(std::size_t index) const;
  /// Groups whose forwarding has changed since the last call.
  [[nodiscard]] std::bitset<kMaxGroups> take_changed();
  [[nodiscard]] bool has_events() const { return !events_.empty(); }
  [[nodiscard]] std::vector<McGroupEvent> take_events();

 private:
  [[nodiscard]] std::size_t index_of(const McGroup& group) const;
  [[nodiscard]] bool has_share_left(NodeIndex requester) const;
  [[nodiscard]] std::optional<std::size_t> choose_index(const Gid& mgid, Lid wanted) const;
  void erase(std::size_t index);
  void stop_previous(std::size_t index, NodeIndex node);

  std::vector<std::optional<McGroup>> groups_{kMaxGroups};
  std::map<Gid, std::size_t> by_mgid_;
  /// Forwarding before a restart; a zero MGID marks a free entry.
  std::vector<GroupForwarding> previous_{kMaxGroups};
  ipoib::TimePoint grace_end_ = ipoib::kNever;
  std::bitset<kMaxGroups> changed_;
  std::vector<McGroupEvent> events_;
};

}  // namespace softib::subnet
