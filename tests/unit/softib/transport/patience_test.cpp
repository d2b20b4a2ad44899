#include "softib/transport/patience.hpp"

#include <gtest/gtest.h>

namespace softib::transport {
namespace {

using namespace std::chrono_literals;

class PatienceTest : public testing::Test {
 protected:
  /// Waits as long as is permitted.
  std::chrono::nanoseconds wait() {
    const auto longest = patience_.left(now_);
    patience_.spend(now_, now_ + longest);
    now_ += longest;
    return longest;
  }

  Patience patience_;
  Patience::TimePoint now_{1h};
};

TEST_F(PatienceTest, IsUsedUpByWaiting) {
  patience_.spend(now_, now_ + kMostPatience / 4);
  now_ += kMostPatience / 4;
  EXPECT_EQ(patience_.left(now_), kMostPatience * 3 / 4);
  EXPECT_EQ(wait(), kMostPatience * 3 / 4);
  EXPECT_EQ(patience_.left(now_), 0ns);
}

TEST_F(PatienceTest, AWaitThatTookLongerLeavesNoDebt) {
  patience_.spend(now_, now_ + 1h);
  EXPECT_EQ(patience_.left(now_ + 1h), 0ns);
}

TEST_F(PatienceTest, IsNeverMoreThanAtTheStart) {
  (void)wait();
  now_ += 24h;
  EXPECT_EQ(patience_.left(now_), kMostPatience);
}

/// However often a receiver is slow, and however long the sender works in between.
TEST_F(PatienceTest, AllWaitsTogetherTakeAShareOfTheTime) {
  const auto begin = now_;
  std::chrono::nanoseconds waited{};
  for (int round = 0; round < 1000; ++round) {
    waited += wait();
    now_ += std::chrono::milliseconds(round % 7);
  }
  EXPECT_GT(waited, kMostPatience);
  EXPECT_LE(waited, kMostPatience + (now_ - begin) / kPatienceShare);
}

TEST_F(PatienceTest, AReceiverEarnsItByTaking) {
  (void)wait();
  patience_.earn(kRingBytes / 2);
  EXPECT_EQ(wait(), kPatienceForHalfRing);
  patience_.earn(kRingBytes / 4);
  EXPECT_EQ(patience_.left(now_), kPatienceForHalfRing / 2);
  patience_.earn(1000 * kRingBytes);
  EXPECT_EQ(patience_.left(now_), kMostPatience);
}

TEST_F(PatienceTest, WaitsOfSeveralThreadsCountOnce) {
  patience_.spend(now_, now_ + kMostPatience / 2);
  patience_.spend(now_, now_ + kMostPatience / 2);
  EXPECT_EQ(patience_.left(now_ + kMostPatience / 2), kMostPatience / 2);
}

}  // namespace
}  // namespace softib::transport
