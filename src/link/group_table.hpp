// The groups that the host is a member of (RFC 4391, 4 and 5): the broadcast and all-nodes groups
// while the link is up, and those that the host's programs have joined.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "link/group.hpp"

namespace ipoib::link {

/// 224.0.0.1 and ff02::1: every host is a member, but the kernel does not list them.
inline constexpr Ipv4Address kAllNodes{0xe0000001};
inline constexpr Ipv6Address kAllNodesOfIpv6(Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                0, 0, 0, 0, 0, 1});

class GroupTable {
 public:
  explicit GroupTable(const GroupDependencies& deps);
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  [[nodiscard]] Group& broadcast() { return broadcast_; }
  [[nodiscard]] const Group& broadcast() const { return broadcast_; }
  /// The group of this MGID if the host is a member; else null.
  [[nodiscard]] const Group* joined(const Gid& mgid);

  // --- Stimuli ---------------------------------------------------------------------------------
  void join_broadcast(const std::optional<wire::McMemberRecord>& creation);
  void on_setup_failed(TimePoint now);
  void on_attach_failed(const Gid& mgid, TimePoint now);
  /// Called when the broadcast group is joined: other groups are created with its parameters.
  /// RFC 4391, 10: they "MUST" have its P_Key, Q_Key, SL, MTU and HopLimit; the rest is copied too.
  void set_creation_template(const wire::McMemberRecord& broadcast) {
    creation_template_ = broadcast;
  }
  void join_others();
  /// The groups that the host has joined now, except those that it is always a member of.
  void set_host_groups(std::span<const IpAddress> wanted);
  /// Returns the group that the host has joined, or is still a member of, by that response; else
  /// null.
  [[nodiscard]] Group* on_response(const wire::SaResponse& response, TimePoint now);
  void on_notice(const Gid& mgid);
  void on_reregister();
  void on_lost();
  void leave();
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  void append_info(std::vector<GroupInfo>& out) const;

 private:
  template <class Act>
  void for_each(Act&& act);
  void arm(Group& group) { timers_.arm(group, group.next_deadline()); }
  /// Null for a group that the host has not joined.
  [[nodiscard]] Group* find(const Gid& mgid);
  [[nodiscard]] Gid mgid_of(const IpAddress& address) const;
  [[nodiscard]] bool is_permanent(const Gid& mgid) const;

  GroupDependencies deps_;
  std::optional<wire::McMemberRecord> creation_;  ///< of the broadcast group
  /// Parameters for the creation of other groups; set while the broadcast group is joined.
  std::optional<wire::McMemberRecord> creation_template_;
  Group broadcast_;
  std::unordered_map<Gid, Group> others_;
  /// Those that the host has joined; one address per MGID, although several may map to it.
  std::map<Gid, IpAddress> host_groups_;
  cache::TimerQueue<Group> timers_;
};

}  // namespace ipoib::link
