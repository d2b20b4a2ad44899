#include "ethernet/station_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::ethernet::station_groups_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Ipv4Address kGroup{0xef010203};
constexpr Ipv4Address kOther{0xef010204};

class StationGroupsTest : public ::testing::Test {
 protected:
  std::vector<IpAddress> join(Ipv4Address group = kGroup) {
    return groups.on_memberships({{group, true}}, now);
  }
  std::vector<IpAddress> leave(Ipv4Address group = kGroup) {
    return groups.on_memberships({{group, false}}, now);
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

TEST_F(StationGroupsTest, AReportKeepsIt) {
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

TEST_F(StationGroupsTest, AnotherStationKeepsIt) {
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

TEST_F(StationGroupsTest, TheNumberIsLimited) {
  for (std::uint32_t i = 0; i < StationGroups::kMax + 3; ++i) join(Ipv4Address(0xef000000 + i));
  EXPECT_EQ(groups.all().size(), StationGroups::kMax);
  EXPECT_EQ(groups.left_out(), 3U);
  join(Ipv4Address(0xef000000));
  EXPECT_EQ(groups.left_out(), 3U) << "it is known";
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
