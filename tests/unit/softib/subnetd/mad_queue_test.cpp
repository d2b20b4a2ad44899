#include "softib/subnetd/mad_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace softib::subnetd {
namespace {

using std::chrono::milliseconds;

constexpr NodeIndex kCheap = 7;
constexpr NodeIndex kExpensive = 3;
constexpr std::size_t kPlaces = 1000;

class MadQueueTest : public ::testing::Test {
 protected:
  void push(NodeIndex from, std::size_t count = 1) {
    for (; count > 0; --count) {
      MadPacket mad;
      mad.source = Qpn(++number_);
      ASSERT_TRUE(queue_.push(from, mad));
    }
  }
  /// Serves so many MADs; returns their senders.
  std::vector<NodeIndex> serve(std::size_t count) {
    std::vector<NodeIndex> senders;
    for (; count > 0; --count) {
      senders.push_back(queue_.pop().from);
      queue_.charge(senders.back(), milliseconds(senders.back() == kCheap ? 1 : 100));
    }
    return senders;
  }

  MadQueue queue_{kPlaces};
  std::uint32_t number_ = 0;
};

TEST_F(MadQueueTest, ASenderHasHalfOfThePlaces) {
  push(kExpensive, kPlaces / 2);
  EXPECT_FALSE(queue_.push(kExpensive, {}));
  push(kCheap, kPlaces / 4);
  EXPECT_FALSE(queue_.push(kCheap, {}));
  EXPECT_EQ(queue_.pop().from, kExpensive);
  queue_.charge(kExpensive, {});
  push(kCheap);
}

TEST_F(MadQueueTest, KeepsTheOrderOfASender) {
  push(kCheap, 3);
  for (std::uint32_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(queue_.pop().mad.source, Qpn(number));
    queue_.charge(kCheap, milliseconds(1));
  }
  EXPECT_TRUE(queue_.empty());
}

TEST_F(MadQueueTest, SharesTheTimeNotTheNumber) {
  push(kExpensive, 3);
  push(kCheap, 50);
  std::vector<NodeIndex> expected(51, kCheap);
  expected[0] = kExpensive;
  EXPECT_EQ(serve(51), expected);
}

TEST_F(MadQueueTest, TheShareIsThatOfALongTime) {
  push(kExpensive, 2);
  push(kCheap, 30);
  for (int round = 0; round < 10; ++round) {
    push(kCheap, 20);
    std::size_t expensive = 0;
    for (const NodeIndex from : serve(20)) expensive += from == kExpensive ? 1 : 0;
    EXPECT_LE(expensive, 1U) << round;
  }
}

TEST_F(MadQueueTest, ASenderOfOneRequestAtATimeIsChargedForThePast) {
  push(kExpensive);
  (void)serve(1);
  push(kExpensive);
  push(kCheap, 2);
  EXPECT_EQ(serve(3), (std::vector<NodeIndex>{kCheap, kCheap, kExpensive}));
}

TEST_F(MadQueueTest, AnIdleSenderSavesUpNoTime) {
  constexpr NodeIndex kOther = 4;
  push(kExpensive, 10);
  (void)serve(9);
  push(kExpensive, 3);
  push(kOther, 4);
  const auto senders = serve(6);
  EXPECT_LE(std::ranges::count(senders, kOther), 4);
  EXPECT_GE(std::ranges::count(senders, kExpensive), 2);
}

TEST_F(MadQueueTest, ASenderMaySendWhileItIsServed) {
  push(kExpensive);
  const auto first = queue_.pop();
  push(kExpensive);
  queue_.charge(first.from, milliseconds(100));
  push(kCheap, 2);
  EXPECT_EQ(serve(3), (std::vector<NodeIndex>{kCheap, kCheap, kExpensive}));
}

}  // namespace
}  // namespace softib::subnetd
