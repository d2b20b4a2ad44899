// The groups of a link together, and those that the host's programs join.
#include <set>

#include "tests/unit/link/group_fixture.hpp"
#include "tests/unit/link/link_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {
namespace {

/// The table of the fixture, which has joined the broadcast group.
class GroupTableTest : public ObjectFixture {
 protected:
  void rejoin() {
    groups.on_lost();
    forget();
    groups.join_broadcast(std::nullopt);
    const auto id = emitted<JoinRequest>().at(0).id;
    ASSERT_NE(groups.on_response({id, group_record(groups.broadcast().mgid())}, now), nullptr);
    forget();
  }
};

TEST_F(GroupTableTest, LidsOfTheSubnetBeforeAreForgotten) {
  groups.on_lid(Lid(2500));
  rejoin();
  groups.on_broadcast_heard(Lid(3), now);
  EXPECT_LE(groups.next_deadline(), now + config.silence_check * 5 / 4);
  groups.on_lid(Lid(2500));
  rejoin();
  groups.on_lid(Lid(1250));
  groups.on_reregister();
  const auto id = emitted<JoinRequest>().at(0).id;
  ASSERT_NE(groups.on_response({id, group_record(groups.broadcast().mgid())}, now), nullptr);
  groups.on_broadcast_heard(Lid(3), now);
  EXPECT_GE(groups.next_deadline(), now + 50s * 3 / 4);
  EXPECT_LE(groups.next_deadline(), now + 50s * 5 / 4);
}

using GroupTableObjects = GroupObjects;

TEST_F(GroupTableObjects, BroadcastAfterALongSilenceStartsAShortPause) {
  const Duration silence = config.silence_check;
  groups.on_broadcast_heard(Lid(3), now);
  const TimePoint heard = now;
  while (now < heard + 1h) {  // until the checks are as rare as they become
    now = groups.next_deadline();
    groups.tick(now);
    for (const auto& lookup : emitted<LookupRequest>()) {
      forget();
      (void)groups.on_response({lookup.id, SaFailure(wire::SaStatus::no_records)}, now);
    }
    for (const auto& join : emitted<JoinRequest>()) {
      forget();
      (void)groups.on_response({join.id, group_record(join.record.mgid)}, now);
    }
  }
  ASSERT_GT(groups.next_deadline(), now + 2 * silence);
  groups.on_broadcast_heard(Lid(3), now);
  EXPECT_LE(groups.next_deadline(), now + silence * 5 / 4);
}

TEST_F(GroupTableObjects, EachMembershipOfTheTableIsChecked) {
  groups.on_lost();
  forget();
  groups.join_broadcast(std::nullopt);
  EXPECT_EQ(groups.next_deadline(), kNever);
  const auto join = take_join();
  ASSERT_NE(groups.on_response({join.id, group_record(join.record.mgid)}, now), nullptr);
  EXPECT_LE(groups.next_deadline(), now + config.membership_check * 5 / 4);
}

TEST_F(GroupTableObjects, AReportOfAnotherScopeEndsThePauseOfTheBroadcastGroup) {
  groups.on_lost();
  forget();
  groups.join_broadcast(std::nullopt);
  const auto join = take_join();
  (void)groups.on_response({join.id, SaFailure(wire::SaStatus::request_denied)}, now);
  forget();
  const Gid other = wire::broadcast_gid(kDefaultPKey, config.scopes.back());
  ASSERT_NE(other, groups.broadcast().mgid());
  groups.on_notice(other);
  EXPECT_EQ(take_join().record.mgid, other);
}

using HostGroups = LinkFixture;

TEST_F(HostGroups, TheLinkDoesNotWaitForGroupsOfTheHost) {
  view.groups = {Ipv4Address(0xe1010101)};
  make();
  link->on_port(port, now);
  const Gid of_host = wire::multicast_gid(Ipv4Address(0xe1010101), kDefaultPKey);
  bool has_asked = false;
  for (auto joins = take<JoinRequest>(); !joins.empty(); joins = take<JoinRequest>()) {
    for (const JoinRequest& join : joins) {
      has_asked |= join.record.mgid == of_host;
      if (join.record.mgid == of_host) continue;
      link->on_response({join.id, group_record(join.record.mgid, mlid_of(join.record.mgid))}, now);
    }
  }
  EXPECT_TRUE(has_asked);
  EXPECT_EQ(link->state(), LinkState::up);
}

TEST_F(HostGroups, GroupsOfTheHostAreLimited) {
  config.limits.host_groups = 2;
  view.groups = {Ipv4Address(0xe1010101), Ipv4Address(0xe1010102), Ipv4Address(0xe1010103)};
  make();
  link->on_port(port, now);
  EXPECT_EQ(count(Counter::host_groups_left_out), 1U);
  std::set<Gid> joined;
  for (auto joins = take<JoinRequest>(); !joins.empty(); joins = take<JoinRequest>()) {
    for (const JoinRequest& join : joins) {
      joined.insert(join.record.mgid);
      link->on_response({join.id, group_record(join.record.mgid, mlid_of(join.record.mgid))}, now);
    }
  }
  EXPECT_TRUE(joined.contains(wire::multicast_gid(Ipv4Address(0xe1010102), kDefaultPKey)));
  EXPECT_FALSE(joined.contains(wire::multicast_gid(Ipv4Address(0xe1010103), kDefaultPKey)));
}

/// A program replaces its groups again and again.
TEST_F(HostGroups, JoinsOfTheHostAreLimited) {
  constexpr std::uint32_t kGroups = 4;
  std::uint32_t next = 0xe1010101;
  config.limits.host_groups = kGroups;
  config.limits.host_joins = 10;
  const auto replace_groups = [&] {
    view.groups.clear();
    while (view.groups.size() < kGroups) view.groups.emplace_back(Ipv4Address(next++));
    if (link) link->on_host_changed(view, now);
  };
  const auto joins = [&] {
    std::size_t count = 0;
    for (const auto& join : take<JoinRequest>()) {
      count += wire::ipv4_group(join.record.mgid) >= Ipv4Address(0xe1010101) ? 1U : 0U;
    }
    return count;
  };
  bring_up();
  (void)take<JoinRequest>();
  replace_groups();
  EXPECT_EQ(joins(), kGroups) << "as many at once";
  for (int i = 0; i < 10; ++i) replace_groups();
  EXPECT_EQ(joins(), 0U);
  tick_to(now + 250ms);
  EXPECT_EQ(joins(), 2U);
  for (int i = 0; i < 10; ++i) replace_groups();
  tick_to(now + 1s);
  EXPECT_EQ(joins(), 4U) << "then there is one for each that waits";
  tick_to(now + 1s);
  EXPECT_EQ(joins(), 0U);
}

}  // namespace
}  // namespace ipoib::link
