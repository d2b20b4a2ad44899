#include "daemon/retry.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

TEST(RetryTest, PausesGrowToTheirLastAndARowIsToldOfOnce) {
  Retry retry;
  EXPECT_FALSE(retry.is_failing());
  EXPECT_TRUE(retry.failed());
  EXPECT_TRUE(retry.is_failing());
  EXPECT_EQ(retry.pause(), Retry::kFirst);
  EXPECT_FALSE(retry.failed());
  EXPECT_EQ(retry.pause(), 2 * Retry::kFirst);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(retry.failed());
  EXPECT_EQ(retry.pause(), Retry::kLast);
}

TEST(RetryTest, ASuccessEndsTheRow) {
  Retry retry;
  EXPECT_FALSE(retry.succeeded());
  (void)retry.failed();
  (void)retry.failed();
  EXPECT_TRUE(retry.succeeded());
  EXPECT_FALSE(retry.succeeded());
  EXPECT_TRUE(retry.failed());
  EXPECT_EQ(retry.pause(), Retry::kFirst);
}

}  // namespace
}  // namespace ipoib::daemon
