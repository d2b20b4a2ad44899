// The groups of a link, and which of them an IPv4 destination means (RFC 4391, 4 and 5).
//
// Both of today's are kept for as long as the link is up. Groups that the host joins by IGMP, and
// those of IPv6, are to become entries here.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "link/group.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {

inline constexpr Ipv4Address kAllNodes{0xe0000001};  ///< 224.0.0.1

class GroupTable {
 public:
  explicit GroupTable(const Group::Environment& env)
      : groups_{
            Group(env, "broadcast",
                  wire::broadcast_gid(env.config.pkey.as_full(), env.config.scope)),
            Group(env, "all-nodes",
                  wire::multicast_gid(kAllNodes, env.config.pkey.as_full(), env.config.scope))} {}

  [[nodiscard]] Group& broadcast() { return groups_[0]; }
  [[nodiscard]] const Group& broadcast() const { return groups_[0]; }
  [[nodiscard]] Group& all_nodes() { return groups_[1]; }

  /// The group of a class D address; null for one that is not joined.
  [[nodiscard]] Group* find(Ipv4Address multicast) {
    return multicast == kAllNodes ? &all_nodes() : nullptr;
  }
  /// Whose question this is; null: nobody's any more.
  [[nodiscard]] Group* find(QuestionId id) {
    const auto at = std::ranges::find_if(groups_, [id](const Group& g) { return g.asks(id); });
    return at == groups_.end() ? nullptr : &*at;
  }
  /// Whether we are in the group of this MGID.
  [[nodiscard]] bool is_member(const Gid& mgid) const {
    return std::ranges::any_of(
        groups_, [&mgid](const Group& g) { return g.mgid() == mgid && g.record() != nullptr; });
  }
  template <class Act>
  void for_each(Act&& act) {
    for (Group& group : groups_) act(group);
  }
  [[nodiscard]] TimePoint next_deadline() const {
    return std::min(groups_[0].next_deadline(), groups_[1].next_deadline());
  }
  [[nodiscard]] std::vector<GroupInfo> info() const {
    return {groups_[0].info(), groups_[1].info()};
  }

 private:
  std::array<Group, 2> groups_;
};

}  // namespace ipoib::link
