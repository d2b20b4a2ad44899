// Bursts, rates and reservations of a token bucket.
#include "ipoib/token_bucket.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

using namespace std::chrono_literals;

TEST(TokenBucketTest, AdmitsABurstThenTheRate) {
  TokenBucket bucket(10, 4);
  TimePoint now{100s};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(bucket.take(now));
  EXPECT_FALSE(bucket.take(now));
  int granted = 0;
  for (int i = 0; i < 1000; ++i) {
    now += 10ms;
    granted += bucket.take(now) ? 1 : 0;
  }
  EXPECT_EQ(granted, 100);
}

TEST(TokenBucketTest, ReservationsAreSpacedByTheRate) {
  TokenBucket bucket(10, 1);
  const TimePoint now{100s};
  EXPECT_EQ(bucket.reserve(now), now);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(bucket.next_moment(now), now + i * 100ms);
    EXPECT_EQ(bucket.reserve(now), now + i * 100ms);
  }
  EXPECT_FALSE(bucket.take(now + 1s));
  EXPECT_TRUE(bucket.take(now + 1100ms));
}

}  // namespace
}  // namespace ipoib
