#include "ethernet/recent_map.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ipoib::ethernet {
namespace {

using Map = RecentMap<Ipv4Address, int>;
constexpr HashKey kKey{1, 2};

TEST(RecentMap, FindsEntriesThatWereSet) {
  Map map(4, kKey);
  EXPECT_EQ(map.find(Ipv4Address(1)), nullptr);
  map.set(Ipv4Address(1), 10);
  map.set(Ipv4Address(1), 11);
  ASSERT_NE(map.find(Ipv4Address(1)), nullptr);
  EXPECT_EQ(*map.find(Ipv4Address(1)), 11);
  EXPECT_EQ(*map.peek(Ipv4Address(1)), 11);
  map.erase(Ipv4Address(1));
  EXPECT_EQ(map.peek(Ipv4Address(1)), nullptr);
}

TEST(RecentMap, VisitsTheRecentlyUsedOnesFirst) {
  Map map(4, kKey);
  for (std::uint32_t i = 1; i <= 4; ++i) map.set(Ipv4Address(i), 0);
  const auto visited = [&](std::size_t limit) {
    std::set<Ipv4Address> found;
    map.visit_recent(limit, [&](const Ipv4Address& key) { found.insert(key); });
    return found;
  };
  EXPECT_EQ(visited(2), (std::set{Ipv4Address(3), Ipv4Address(4)}));
  EXPECT_EQ(visited(3).size(), 3U);
  EXPECT_EQ(visited(5).size(), 4U);
  map.erase(Ipv4Address(1));
  EXPECT_EQ(map.peek(Ipv4Address(1)), nullptr) << "an old one";
}

TEST(RecentMap, ForgetsUnusedEntries) {
  Map map(8, kKey);
  map.set(Ipv4Address(1), 1);
  map.set(Ipv4Address(2), 2);
  for (std::uint32_t i = 100; i < 200; ++i) {
    map.set(Ipv4Address(i), 0);
    if (i % 3 == 0) {
      EXPECT_NE(map.find(Ipv4Address(1)), nullptr) << "used again and again";
    }
    EXPECT_LE(map.size(), 8U);
  }
  EXPECT_EQ(map.find(Ipv4Address(2)), nullptr);
}

TEST(RecentMap, ANewValueNeedsNoRoom) {
  Map map(4, kKey);
  for (std::uint32_t i = 1; i <= 4; ++i) map.set(Ipv4Address(i), 0);
  map.set(Ipv4Address(4), 1);
  EXPECT_EQ(map.size(), 4U);
  EXPECT_NE(map.peek(Ipv4Address(1)), nullptr);
}

TEST(RecentMap, APeekIsNoUse) {
  Map map(4, kKey);
  map.set(Ipv4Address(1), 1);
  for (std::uint32_t i = 100; i < 104; ++i) {
    (void)map.peek(Ipv4Address(1));
    map.set(Ipv4Address(i), 0);
  }
  EXPECT_EQ(map.peek(Ipv4Address(1)), nullptr);
}

}  // namespace
}  // namespace ipoib::ethernet
