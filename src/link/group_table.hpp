// The groups that the host is in (RFC 4391, 4 and 5): the broadcast group and that of all nodes,
// for as long as the link is up, and those that the host has joined.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "link/group.hpp"

namespace ipoib::link {

/// 224.0.0.1 and ff02::1: every host is in them, and its kernel does not say so.
inline constexpr Ipv4Address kAllNodes{0xe0000001};
inline constexpr Ipv6Address kAllNodesOfIpv6(Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                0, 0, 0, 0, 0, 1});

class GroupTable {
 public:
  explicit GroupTable(const GroupDependencies& env);
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  [[nodiscard]] Group& broadcast() { return broadcast_; }
  [[nodiscard]] const Group& broadcast() const { return broadcast_; }
  /// The group of this MGID, if we are in it; else null.
  [[nodiscard]] const Group* joined(const Gid& mgid);

  // --- Stimuli ---------------------------------------------------------------------------------
  void join_broadcast(const std::optional<wire::McMemberRecord>& creation);
  void on_setup_failed(TimePoint now);
  void on_attach_failed(const Gid& mgid, TimePoint now);
  /// The broadcast group is joined, or joined again: others are created in its likeness from now
  /// on. RFC 4391, 10: they "MUST" have its P_Key, Q_Key, SL, MTU and HopLimit; the rest follows
  /// it, too.
  void set_likeness(const wire::McMemberRecord& broadcast) { likeness_ = broadcast; }
  void join_others();
  /// Those that the host is in now, besides the ones that it always is in.
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
  /// Null for a group that the host does not want to be in.
  [[nodiscard]] Group* find(const Gid& mgid);
  [[nodiscard]] Gid mgid_of(const IpAddress& address) const;
  [[nodiscard]] bool is_lasting(const Gid& mgid) const;

  GroupDependencies env_;
  std::optional<wire::McMemberRecord> creation_;  ///< of the broadcast group
  /// In whose likeness groups are created, while the broadcast group is joined.
  std::optional<wire::McMemberRecord> likeness_;
  Group broadcast_;
  std::unordered_map<Gid, Group> others_;
  /// Those of the host; of several addresses with one MGID, one.
  std::map<Gid, IpAddress> host_groups_;
  cache::TimerQueue<Group> timers_;
};

}  // namespace ipoib::link
