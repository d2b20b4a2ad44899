#include "ethernet/requests.hpp"

#include <gtest/gtest.h>

namespace ipoib::ethernet {
namespace {

using namespace std::chrono_literals;

constexpr Ipv4Address kTarget{0x0a2c0002};
constexpr Ipv4Address kOther{0x0a2c0003};
const Asker kOne{MacAddress(0x0200'0000'0001), Ipv4Address(0x0a2c0001)};
const Asker kTwo{MacAddress(0x0200'0000'0002), Ipv4Address(0)};

class RequestsTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kSolicitations = 500;
  [[nodiscard]] bool add(const IpAddress& target, const Asker& asker,
                         AskerKind kind = AskerKind::host) {
    return requests.add(target, asker, kind, now);
  }
  [[nodiscard]] static Asker asker(std::uint32_t number) {
    return {MacAddress(0x0200'0001'0000 + number), Ipv4Address(0)};
  }

  TimePoint now{1h};
  Requests requests{kSolicitations};
};

TEST_F(RequestsTest, AllWhoHaveAskedForATargetAreReturnedOnce) {
  EXPECT_TRUE(add(kTarget, kOne));
  EXPECT_TRUE(add(kTarget, kTwo));
  EXPECT_TRUE(add(kTarget, kOne)) << "a repetition";
  EXPECT_TRUE(add(kOther, kOne));
  EXPECT_EQ(requests.take(kTarget), (std::vector{kTwo, kOne}));
  EXPECT_TRUE(requests.take(kTarget).empty());
  EXPECT_EQ(requests.take(kOther), std::vector{kOne});
}

TEST_F(RequestsTest, AreLimitedUntilTheyExpire) {
  for (std::uint32_t i = 0; i < Requests::kMax / 2; ++i) {
    EXPECT_TRUE(add(Ipv4Address(i), kOne));
  }
  EXPECT_FALSE(add(kTarget, kOne));
  EXPECT_TRUE(add(kTarget, kTwo)) << "another one has room";
  now += Requests::kPatience;
  EXPECT_TRUE(add(kTarget, kOne));
  EXPECT_TRUE(requests.take(Ipv4Address(0)).empty());
}

/// One guest that makes MACs up: each of 500 asks ten times a second.
TEST_F(RequestsTest, AskersWithoutAnAddressLeaveRoomForTheHostAndForStations) {
  for (const AskerKind kind : {AskerKind::host, AskerKind::station}) {
    std::size_t passed_on = 0;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
      now += 200us;
      passed_on += add(Ipv4Address(i), asker(i % 500), AskerKind::newcomer) ? 1 : 0;
      if (i % 100 == 0) {
        EXPECT_TRUE(add(kTarget, kOne, kind)) << i;
      }
    }
    EXPECT_GT(passed_on, 0U);
    EXPECT_LT(passed_on, std::size_t{4} * kSolicitations * Requests::kNewcomerShare / 100);
    EXPECT_EQ(requests.take(kTarget), std::vector{kOne});
  }
}

TEST_F(RequestsTest, AStationLeavesRoomForOthersAndForTheHost) {
  for (std::uint32_t i = 0; i < 2000; ++i) {
    now += 4ms;
    (void)add(Ipv4Address(i), kOne, AskerKind::station);
    EXPECT_TRUE(add(kTarget, kTwo, AskerKind::host));
    if (i % 20 == 0) {
      EXPECT_TRUE(add(kOther, asker(1), AskerKind::station)) << i;
    }
  }
}

/// So the link does not spend all of its solicitations on them.
TEST_F(RequestsTest, AllStationsTogetherHaveAPartOfTheSolicitations) {
  std::size_t passed_on = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    now += 1ms;
    for (const AskerKind kind : {AskerKind::station, AskerKind::newcomer}) {
      const Ipv4Address target(i);
      passed_on += add(target, asker(i), kind) ? 1 : 0;
      (void)requests.take(target);
    }
  }
  EXPECT_GT(passed_on, kSolicitations);
  EXPECT_LT(passed_on, 2 * kSolicitations + kSolicitations / 4) << "in two seconds, after a burst";
  EXPECT_TRUE(add(kTarget, kOne, AskerKind::host));
}

}  // namespace
}  // namespace ipoib::ethernet
