#include "ethernet/station_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::ethernet::station_table_test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kStations = 4;

MacAddress mac(std::uint32_t number) { return MacAddress(0x0200'0000'0000 + number); }
Ipv4Address ip(std::uint32_t number) { return Ipv4Address(0x0a2c0000 + number); }

class StationTableTest : public ::testing::Test {
 protected:
  StationAddress* claim(std::uint32_t station, std::uint32_t address) {
    StationBudget* const budget = table.station(mac(station));
    return budget != nullptr ? table.on_claimed(*budget, ip(address), now) : nullptr;
  }
  StationAddress* see(std::uint32_t station, std::uint32_t address) {
    StationBudget* const budget = table.station(mac(station));
    return budget != nullptr ? table.on_seen(*budget, ip(address), now) : nullptr;
  }
  void pass(Duration time) {
    const TimePoint end = now + time;
    while (table.next_deadline() <= end) {
      now = std::max(now, table.next_deadline());
      table.tick(now);
    }
    now = end;
  }
  /// Claims it, and waits until it is served.
  void serve(std::uint32_t station, std::uint32_t address) {
    ASSERT_NE(claim(station, address), nullptr);
    pass(1s);
    ASSERT_TRUE(table.find(ip(address))->is_served());
  }
  [[nodiscard]] std::size_t addresses_of(std::uint32_t station) {
    return table.station(mac(station))->addresses;
  }

  TimePoint now{1h};
  StationTable table{kStations, HashKey{1, 2}};
};

TEST_F(StationTableTest, ServesAnAddressThatIsClaimed) {
  serve(1, 1);
  ASSERT_EQ(table.out().services.size(), 1U);
  EXPECT_EQ(table.out().services[0].address, IpAddress(ip(1)));
  EXPECT_EQ(addresses_of(1), 1U);
}

TEST_F(StationTableTest, WhatIsServedIsSavedAndServedAgain) {
  serve(1, 1);
  serve(1, 2);
  table.set_router(*table.find(ip(2)), true);
  serve(2, 3);
  ASSERT_NE(see(3, 4), nullptr) << "not confirmed yet";
  pass(2s);
  auto saved = table.save(now);
  std::ranges::sort(saved, {}, &SavedStation::address);
  ASSERT_EQ(saved.size(), 3U);
  EXPECT_EQ(saved[0].address, IpAddress(ip(1)));
  EXPECT_EQ(saved[0].mac, mac(1));
  EXPECT_EQ(saved[0].idle, now - table.find(ip(1))->heard());
  EXPECT_FALSE(saved[0].is_router);
  EXPECT_TRUE(saved[1].is_router);
  EXPECT_EQ(saved[2].mac, mac(2));

  StationTable next(kStations, HashKey{3, 4});
  for (const auto& each : saved) next.restore(each, now);
  auto again = next.save(now);
  std::ranges::sort(again, {}, &SavedStation::address);
  EXPECT_EQ(again, saved);
  EXPECT_EQ(next.out().services.size(), 3U);
  EXPECT_EQ(next.stations(), 2U);
  now += StationTimes().reachable;
  next.tick(now);
  EXPECT_EQ(next.out().probes.size(), 3U) << "each is asked when it is due";
}

TEST_F(StationTableTest, WhatIsKnownOrBeyondALimitIsNotRestored) {
  serve(1, 1);
  table.restore({.address = ip(1), .mac = mac(2)}, now);
  EXPECT_EQ(table.find(ip(1))->mac(), mac(1));
  for (std::uint32_t i = 0; i < StationTable::kAddressesPerStation + 1; ++i) {
    table.restore({.address = ip(100 + i), .mac = mac(1)}, now);
  }
  EXPECT_EQ(addresses_of(1), kStations * StationTable::kAddressesShare)
      << "as many as the table has room for";
  for (std::uint32_t i = 2; i <= kStations + 2; ++i) {
    table.restore({.address = ip(200 + i), .mac = mac(i)}, now);
  }
  EXPECT_LE(table.stations(), kStations);
}

TEST_F(StationTableTest, ForgetsAStationThatDoesNotAnswer) {
  serve(1, 1);
  pass(10min);
  EXPECT_EQ(table.find(ip(1)), nullptr);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(addresses_of(1), 0U);
  EXPECT_FALSE(table.out().services.back().on);
}

TEST_F(StationTableTest, StationsWithAnAddressKeepTheirPlace) {
  for (std::uint32_t i = 1; i <= kStations; ++i) serve(i, i);
  EXPECT_EQ(claim(99, 99), nullptr);
  EXPECT_EQ(table.counters().drop_station_limit, 1U);
  EXPECT_EQ(table.stations(), kStations);
}

TEST_F(StationTableTest, StationsWithoutAnAddressMakeRoom) {
  for (std::uint32_t i = 1; i < kStations; ++i) serve(i, i);
  for (std::uint32_t i = 100; i < 1000; ++i) EXPECT_NE(table.station(mac(i)), nullptr);
  EXPECT_EQ(table.stations(), kStations);
  EXPECT_EQ(table.counters().drop_station_limit, 0U);
  for (std::uint32_t i = 1; i < kStations; ++i) EXPECT_NE(table.find(ip(i)), nullptr);
}

TEST_F(StationTableTest, AStationWhoseAddressesHaveGoneMakesRoom) {
  for (std::uint32_t i = 1; i <= kStations; ++i) serve(i, i);
  table.remove(ip(1));
  EXPECT_NE(claim(98, 98), nullptr);
  (void)claim(2, 3);
  pass(1s);
  ASSERT_EQ(table.find(ip(3))->mac(), mac(2)) << "moved away from 3";
  EXPECT_NE(claim(99, 99), nullptr);
  EXPECT_EQ(table.stations(), kStations);
  EXPECT_FALSE(table.has(mac(1)) || table.has(mac(3)));
}

TEST_F(StationTableTest, TheHostTakesNoRoomOfAStation) {
  table.set_shared(mac(50));
  serve(50, 50);
  for (std::uint32_t i = 1; i <= kStations; ++i) serve(i, i);
  EXPECT_EQ(table.stations(), kStations);
  EXPECT_EQ(table.counters().drop_station_limit, 0U);
  EXPECT_EQ(claim(99, 99), nullptr);
  EXPECT_NE(table.find(ip(50)), nullptr);
}

TEST_F(StationTableTest, TheHostHasRoomWithAndWithoutAnAddress) {
  table.set_shared(mac(50));
  ASSERT_NE(table.station(mac(50)), nullptr);
  for (std::uint32_t i = 1; i <= kStations; ++i) (void)table.station(mac(i));
  table.station(mac(50))->requests = TokenBucket(1, 1);
  for (std::uint32_t i = 1; i <= kStations; ++i) serve(100 + i, i);
  ASSERT_TRUE(table.station(mac(50))->requests.take(now));
  EXPECT_FALSE(table.station(mac(50))->requests.take(now)) << "it has still its own bucket";
  serve(50, 50);
}

TEST_F(StationTableTest, TheStationHeardLongestAgoMakesRoom) {
  for (std::uint32_t i = 1; i <= kStations; ++i) (void)table.station(mac(i));
  (void)table.station(mac(1));
  table.station(mac(3))->requests = TokenBucket(1, 1);
  (void)table.station(mac(99));  // in the place of 2
  ASSERT_TRUE(table.station(mac(3))->requests.take(now));
  EXPECT_FALSE(table.station(mac(3))->requests.take(now)) << "3 has still its own bucket";
}

TEST_F(StationTableTest, AStationHasALimitOfAddresses) {
  StationTable large(64, HashKey{1, 2});
  StationBudget& station = *large.station(mac(1));
  station.claims = TokenBucket(1'000'000'000, 1000);
  for (std::uint32_t i = 0; i < StationTable::kAddressesPerStation + 5; ++i) {
    (void)large.on_claimed(station, ip(i), now);
  }
  EXPECT_EQ(large.size(), StationTable::kAddressesPerStation);
  EXPECT_EQ(large.counters().address_limit, 5U);
  EXPECT_EQ(station.addresses, StationTable::kAddressesPerStation);
}

TEST_F(StationTableTest, AFullTableEvictsUnservedAddresses) {
  constexpr std::size_t kAddresses = kStations * StationTable::kAddressesShare;
  serve(1, 1);
  for (std::uint32_t i = 2; i <= kAddresses; ++i) ASSERT_NE(see(2, i), nullptr);
  ASSERT_NE(claim(3, 100), nullptr);
  EXPECT_EQ(table.size(), kAddresses);
  EXPECT_EQ(table.counters().evicted, 1U);
  EXPECT_EQ(table.find(ip(2)), nullptr) << "the oldest";
  EXPECT_NE(table.find(ip(1)), nullptr) << "is served";
  EXPECT_EQ(addresses_of(2), kAddresses - 2);
}

TEST_F(StationTableTest, ClaimsAreLimited) {
  constexpr std::uint32_t kBurst = StationBudget::kClaims / 4;
  for (std::uint32_t i = 0; i < kBurst; ++i) {
    (void)claim(1, i + 1);
    table.remove(ip(i + 1));
  }
  EXPECT_EQ(claim(1, 77), nullptr);
  EXPECT_EQ(table.counters().address_limit, 1U);
  EXPECT_NE(claim(2, 77), nullptr) << "another station has its own budget";
}

TEST_F(StationTableTest, ClaimsOfTheAddressesOfOthersAreLimited) {
  serve(1, 1);
  constexpr std::uint32_t kBurst = StationBudget::kClaims / 4;
  for (std::uint32_t i = 0; i < 2 * kBurst; ++i) {
    (void)claim(2, 1);
    (void)claim(1, 1);  // it answers each time
  }
  EXPECT_EQ(table.out().probes.size(), kBurst);
  EXPECT_EQ(table.find(ip(1))->mac(), mac(1));
}

TEST_F(StationTableTest, AnAddressThatMovesIsCountedForItsNewStation) {
  serve(1, 1);
  (void)claim(2, 1);
  pass(1s);
  EXPECT_EQ(table.find(ip(1))->mac(), mac(2));
  EXPECT_EQ(addresses_of(1), 0U);
  EXPECT_EQ(addresses_of(2), 1U);
}

TEST_F(StationTableTest, AnAddressDoesNotMoveToAStationThatWasForgotten) {
  for (std::uint32_t i = 1; i < kStations; ++i) serve(i, i);
  (void)claim(50, 1);
  for (std::uint32_t i = 100; i < 110; ++i) (void)table.station(mac(i));
  pass(1s);
  EXPECT_EQ(table.find(ip(1)), nullptr);
  EXPECT_FALSE(table.out().services.back().on) << "withdrawn";
}

TEST_F(StationTableTest, PointersAndResultsAreValidWhileTheVersionStays) {
  serve(1, 1);
  auto before = table.version();
  (void)see(1, 1);
  EXPECT_EQ(table.version(), before) << "an ordinary packet changes nothing";
  (void)claim(2, 1);
  EXPECT_NE(table.version(), before);
  before = table.version();
  table.remove(ip(1));
  EXPECT_NE(table.version(), before);
}

TEST_F(StationTableTest, RequestsOfTheFabricGoToAStationThatWasHeard) {
  serve(1, 1);
  EXPECT_EQ(table.on_asked(ip(1), now), mac(1));
  EXPECT_EQ(table.on_asked(ip(1), now), std::nullopt) << "it has not answered: to all";
  EXPECT_EQ(table.on_asked(ip(9), now), std::nullopt);
}

TEST_F(StationTableTest, ListsInPages) {
  for (std::uint32_t i = 1; i <= 3; ++i) serve(i, i);
  const auto first = table.list(0, 2, now + 1s);
  ASSERT_EQ(first.stations.size(), 2U);
  ASSERT_TRUE(first.next);
  EXPECT_STREQ(name(first.stations[0].state), "reachable");
  EXPECT_GE(first.stations[0].idle, 1s);
  const auto second = table.list(*first.next, 2, now);
  EXPECT_EQ(second.stations.size(), 1U);
  EXPECT_FALSE(second.next);
}

/// What strangers choose must not make look-ups long.
TEST_F(StationTableTest, AFloodLeavesTheTableWithinItsBounds) {
  for (std::uint32_t i = 0; i < 20000; ++i) {
    now += 1ms;
    (void)see(i, i * 7919);
    table.tick(now);
    table.out() = {};
  }
  EXPECT_LE(table.stations(), kStations);
  EXPECT_LE(table.size(), kStations * StationTable::kAddressesShare);
}

}  // namespace
}  // namespace ipoib::ethernet::station_table_test
