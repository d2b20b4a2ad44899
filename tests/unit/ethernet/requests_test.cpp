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
  TimePoint now{1h};
  Requests requests;
};

TEST_F(RequestsTest, AllWhoHaveAskedForATargetAreReturnedOnce) {
  EXPECT_TRUE(requests.add(kTarget, kOne, now));
  EXPECT_TRUE(requests.add(kTarget, kTwo, now));
  EXPECT_TRUE(requests.add(kTarget, kOne, now)) << "a repetition";
  EXPECT_TRUE(requests.add(kOther, kOne, now));
  EXPECT_EQ(requests.take(kTarget), (std::vector{kTwo, kOne}));
  EXPECT_TRUE(requests.take(kTarget).empty());
  EXPECT_EQ(requests.take(kOther), std::vector{kOne});
}

TEST_F(RequestsTest, AreLimitedUntilTheyExpire) {
  for (std::uint32_t i = 0; i < Requests::kMax; ++i) {
    EXPECT_TRUE(requests.add(Ipv4Address(i), kOne, now));
  }
  EXPECT_FALSE(requests.add(kTarget, kOne, now));
  now += Requests::kPatience;
  EXPECT_TRUE(requests.add(kTarget, kOne, now));
  EXPECT_TRUE(requests.take(Ipv4Address(0)).empty());
}

}  // namespace
}  // namespace ipoib::ethernet
