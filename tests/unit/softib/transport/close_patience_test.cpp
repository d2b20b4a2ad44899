#include "softib/transport/close_patience.hpp"

#include <gtest/gtest.h>

namespace softib::transport {
namespace {

using namespace std::chrono_literals;

class ClosePatienceTest : public testing::Test {
 protected:
  /// Waits as long as is permitted.
  std::chrono::nanoseconds wait() {
    const auto longest = patience_.left(now_);
    patience_.spend(now_, now_ + longest);
    now_ += longest;
    return longest;
  }

  ClosePatience patience_;
  ClosePatience::TimePoint now_{1h};
};

TEST_F(ClosePatienceTest, IsUsedUpByWaiting) {
  patience_.spend(now_, now_ + kCloseTimeout / 4);
  now_ += kCloseTimeout / 4;
  EXPECT_EQ(patience_.left(now_), kCloseTimeout * 3 / 4);
  EXPECT_EQ(wait(), kCloseTimeout * 3 / 4);
  EXPECT_EQ(patience_.left(now_), 0ns);
}

TEST_F(ClosePatienceTest, AWaitThatTookLongerLeavesNoDebt) {
  patience_.spend(now_, now_ + 1h);
  EXPECT_EQ(patience_.left(now_ + 1h), 0ns);
}

TEST_F(ClosePatienceTest, IsNeverMoreThanAtTheStart) {
  (void)wait();
  now_ += 24h;
  EXPECT_EQ(patience_.left(now_), kCloseTimeout);
}

/// However often a receiver closes, and however long the sender works in between.
TEST_F(ClosePatienceTest, AllWaitsTogetherTakeAShareOfTheTime) {
  const auto begin = now_;
  std::chrono::nanoseconds waited{};
  for (int round = 0; round < 1000; ++round) {
    waited += wait();
    now_ += std::chrono::milliseconds(round % 7);
  }
  EXPECT_GT(waited, kCloseTimeout);
  EXPECT_LE(waited, kCloseTimeout + (now_ - begin) / kCloseShare);
}

}  // namespace
}  // namespace softib::transport
