#include "ipoib/backoff.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

using namespace std::chrono_literals;

TEST(BackoffTest, DelaysDoubleUpToTheLongest) {
  constexpr Backoff backoff{1s, 5s};
  EXPECT_EQ(backoff.after(1), 1s);
  EXPECT_EQ(backoff.after(2), 2s);
  EXPECT_EQ(backoff.after(3), 4s);
  EXPECT_EQ(backoff.after(4), 5s);
  EXPECT_EQ(backoff.after(1000000), 5s);
}

/// The first numbers that are published for this seed.
TEST(RandomTest, IsSplitmix64) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(BackoffTest, JitterIsAQuarter) {
  constexpr Backoff backoff{1s, 5s};
  Random random(1);
  Duration least = 1h;
  Duration most{};
  for (int i = 0; i < 1000; ++i) {
    const Duration pause = backoff.after(2, random);
    least = std::min(least, pause);
    most = std::max(most, pause);
  }
  EXPECT_GE(least, 1500ms);
  EXPECT_LT(least, 1505ms);
  EXPECT_LE(most, 2500ms);
  EXPECT_GT(most, 2495ms);
}

TEST(RetryTest, DelaysGrowAndOnlyTheFirstFailureIsReported) {
  Retry retry(Backoff{1s, 5s});
  EXPECT_FALSE(retry.is_failing());
  EXPECT_TRUE(retry.failed());
  EXPECT_TRUE(retry.is_failing());
  EXPECT_EQ(retry.pause(), 1s);
  EXPECT_FALSE(retry.failed());
  EXPECT_EQ(retry.pause(), 2s);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(retry.failed());
  EXPECT_EQ(retry.pause(), 5s);
}

TEST(RetryTest, SuccessResetsTheDelay) {
  Retry retry;
  EXPECT_FALSE(retry.succeeded());
  (void)retry.failed();
  (void)retry.failed();
  EXPECT_TRUE(retry.succeeded());
  EXPECT_FALSE(retry.succeeded());
  EXPECT_TRUE(retry.failed());
  EXPECT_EQ(retry.pause(), Retry::kLocal.first);
}

}  // namespace
}  // namespace ipoib
