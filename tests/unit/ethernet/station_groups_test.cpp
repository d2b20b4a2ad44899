#include "ethernet/station_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::ethernet::station_groups_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr MacAddress kStation{0x0200'0000'0011};
constexpr MacAddress kSecond{0x0200'0000'0022};
constexpr Ipv4Address kGroup{0xef010203};

class StationGroupsTest : public ::testing::Test {
 protected:
  std::vector<IpAddress> join(Ipv4Address group = kGroup) {
    return groups.on_memberships(kStation, {{group, true}}, now).left;
  }
  std::vector<IpAddress> leave(Ipv4Address group = kGroup) {
    return groups.on_memberships(kStation, {{group, false}}, now).left;
  }
  /// A report of so many groups. Returns how many are left out.
  std::size_t report(MacAddress station, std::uint32_t first, std::size_t count,
                     bool is_member = true) {
    std::vector<wire::GroupMembership> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back({Ipv4Address(first + i), is_member});
    return groups.on_memberships(station, all, now).left_out;
  }
  void pass(Duration time) {
    const TimePoint end = now + time;
    while (groups.next_deadline() <= end) {
      now = std::max(now, groups.next_deadline());
      groups.tick(now);
      queries += groups.take_query(now) ? 1U : 0U;
    }
    now = end;
  }

  TimePoint now{1h};
  StationGroups groups{HashKey{1, 2}};
  unsigned queries = 0;
};

TEST_F(StationGroupsTest, AGroupExpiresIfNobodyReportsIt) {
  EXPECT_THAT(join(), IsEmpty());
  EXPECT_THAT(groups.all(), ElementsAre(IpAddress(kGroup)));
  pass(StationGroups::kMembership - 1s);
  EXPECT_TRUE(groups.contains(kGroup));
  pass(1s);
  EXPECT_THAT(groups.all(), IsEmpty());
}

TEST_F(StationGroupsTest, SavesTheGroupsWithTheStationsThatAreCharged) {
  (void)join();
  (void)report(kSecond, kGroup.number() + 1, 1);
  auto saved = groups.save();
  std::ranges::sort(saved, {}, &SavedGroup::group);
  EXPECT_THAT(saved, ElementsAre(SavedGroup{kGroup, kStation},
                                 SavedGroup{Ipv4Address(kGroup.number() + 1), kSecond}));
}

TEST_F(StationGroupsTest, AReportKeepsTheGroup) {
  for (int i = 0; i < 5; ++i) {
    join();
    pass(StationGroups::kQueryInterval);
  }
  EXPECT_TRUE(groups.contains(kGroup));
}

TEST_F(StationGroupsTest, AfterALeaveMessageTheOthersAreAsked) {
  join();
  EXPECT_THAT(leave(), ElementsAre(IpAddress(kGroup)));
  EXPECT_TRUE(groups.contains(kGroup));
  pass(StationGroups::kLastMember);
  EXPECT_FALSE(groups.contains(kGroup));
  EXPECT_THAT(leave(), IsEmpty()) << "nobody listened";
}

TEST_F(StationGroupsTest, AnotherStationKeepsTheGroup) {
  join();
  leave();
  pass(1s);
  EXPECT_TRUE(groups.contains(kGroup)) << "the others have time to answer";
  join();
  pass(10s);
  EXPECT_TRUE(groups.contains(kGroup));
}

TEST_F(StationGroupsTest, TheVersionChangesWithTheGroups) {
  const auto first = groups.version();
  join();
  const auto second = groups.version();
  EXPECT_NE(first, second);
  join();
  EXPECT_EQ(groups.version(), second);
  pass(StationGroups::kMembership);
  EXPECT_NE(groups.version(), second);
}

TEST_F(StationGroupsTest, AStationHasAShare) {
  EXPECT_EQ(report(kStation, 0xef000000, 1024), 1024 - StationGroups::kShare);
  EXPECT_EQ(groups.left_out(), 1024 - StationGroups::kShare);
  EXPECT_EQ(report(kStation, 0xef000000, 3), 0U) << "they are known";
  EXPECT_EQ(report(kSecond, 0xef000000, 3), 0U) << "another one is charged for them";
  EXPECT_EQ(report(kSecond, 0xef010000, 3), 0U) << "another station has its own share";
  pass(1min);
  EXPECT_EQ(groups.all().size(), StationGroups::kShare + 3);
  report(kStation, 0xef000000, 1, false);
  pass(StationGroups::kLastMember);
  EXPECT_EQ(report(kStation, 0xef020000, 2), 1U);
}

TEST_F(StationGroupsTest, AllStationsHaveATotal) {
  report(kStation, 0xef000000, StationGroups::kShare);
  const std::size_t rest = StationGroups::kMax - StationGroups::kShare;
  EXPECT_EQ(report(kSecond, 0xef010000, StationGroups::kShare), StationGroups::kShare - rest);
  pass(1min);
  EXPECT_EQ(groups.all().size(), StationGroups::kMax);
}

TEST_F(StationGroupsTest, TheStationThatStillListensIsCharged) {
  report(kStation, 0xef000000, StationGroups::kShare);
  report(kStation, 0xef000000, StationGroups::kShare, false);
  report(kSecond, 0xef000000, 10);
  pass(StationGroups::kLastMember);
  EXPECT_EQ(report(kStation, 0xef010000, StationGroups::kShare), 0U);
  EXPECT_EQ(report(kSecond, 0xef020000, StationGroups::kMax),
            StationGroups::kMax - (StationGroups::kMax - StationGroups::kShare - 10));
  groups = StationGroups(HashKey{1, 2});
  report(kStation, 0xef000000, StationGroups::kShare);
  now += StationGroups::kMembership - 1s;
  report(kSecond, 0xef000000, StationGroups::kShare);  // it has gone silently
  now += 1s;
  report(kSecond, 0xef000000, StationGroups::kShare);
  EXPECT_EQ(report(kStation, 0xef010000, 1), 0U);
}

/// Each join is a request to the SA.
TEST_F(StationGroupsTest, JoinsBeyondARateWait) {
  report(kStation, 0xef000000, 300);
  EXPECT_EQ(groups.all().size(), StationGroups::kJoinBurst);
  EXPECT_TRUE(groups.contains(Ipv4Address(0xef000000 + 299)));
  pass(1s);
  EXPECT_LE(groups.all().size(), StationGroups::kJoinBurst + StationGroups::kJoins + 1);
  pass(3s);
  EXPECT_EQ(groups.all().size(), 300U);
  EXPECT_GT(groups.next_deadline(), now + 10s) << "nothing waits";
  report(kStation, 0xef100000, 300);
  pass(StationGroups::kMembership);
  EXPECT_EQ(groups.all().size(), 0U);
  EXPECT_EQ(groups.next_deadline(), kNever);
  report(kStation, 0xef200000, 300);
  report(kStation, 0xef200000, 300, false);  // before all are joined
  pass(StationGroups::kLastMember + 1s);
  EXPECT_EQ(groups.all().size(), 0U);
  EXPECT_EQ(groups.next_deadline(), kNever);
}

TEST_F(StationGroupsTest, LeavingAndJoiningStaysWithinTheRate) {
  std::uint64_t joins = 0;
  std::vector<IpAddress> before;
  for (int i = 0; i < 20; ++i) {
    const auto first = static_cast<std::uint32_t>(0xef000000 + 0x1000 * i);
    report(kStation, first, StationGroups::kShare);
    for (int part = 0; part < 10; ++part) {
      pass(100ms);
      const auto after = groups.all();
      joins += static_cast<std::uint64_t>(std::ranges::count_if(
          after, [&](const IpAddress& one) { return !std::ranges::binary_search(before, one); }));
      before = after;
    }
    report(kStation, first, StationGroups::kShare, false);
    pass(StationGroups::kLastMember);
    before = groups.all();
  }
  EXPECT_LE(joins, StationGroups::kJoinBurst + 60 * StationGroups::kJoins);
  EXPECT_GT(joins, StationGroups::kJoinBurst + 10 * StationGroups::kJoins);
}

TEST_F(StationGroupsTest, RFC3376_8_QueriesAreSentFromTheFirstStationOn) {
  pass(1h);
  EXPECT_EQ(queries, 0U);
  groups.start(now);
  pass(0s);
  EXPECT_EQ(queries, 1U);
  pass(StationGroups::kStartupInterval);
  EXPECT_EQ(queries, 2U);
  pass(StationGroups::kQueryInterval - 1s);
  EXPECT_EQ(queries, 2U);
  pass(1s);
  EXPECT_EQ(queries, 3U);
  groups.start(now);
  pass(0s);
  EXPECT_EQ(queries, 3U);
}

}  // namespace
}  // namespace ipoib::ethernet::station_groups_test
