// Groups whose requests a test answers one by one.
#pragma once

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {

class GroupObjects : public ObjectFixture {
 protected:
  [[nodiscard]] JoinRequest take_join() {
    const auto joins = emitted<JoinRequest>();
    EXPECT_EQ(joins.size(), 1U);
    forget();
    return joins.empty() ? JoinRequest{} : joins.front();
  }
  void refuse_join(Group& group, wire::SaStatus status) {
    EXPECT_FALSE(group.on_response({take_join().id, SaFailure(status)}, now));
  }
  void grant_join(Group& group) {
    EXPECT_TRUE(group.on_response({take_join().id, group_record(group.mgid())}, now));
  }
  void reach_deadline_of(Group& group) {
    now = group.next_deadline();
    group.tick(now);
  }
  /// The lookup of a membership check is answered with this record.
  std::uint64_t losses_after_finding(const wire::McMemberRecord& record) {
    Group group{membership, GroupRole::broadcast};
    group.start();
    grant_join(group);
    reach_deadline_of(group);
    const auto lookups = emitted<LookupRequest>();
    EXPECT_EQ(lookups.size(), 1U);
    EXPECT_FALSE(group.on_response({lookups.at(0).id, record}, now));
    const auto losses = count(Counter::memberships_lost);
    forget();
    return losses;
  }
};

}  // namespace ipoib::link
