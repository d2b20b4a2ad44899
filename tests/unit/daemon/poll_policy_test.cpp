#include "daemon/poll_policy.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

using Next = PollPolicy::Next;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLook = microseconds(1);

class PollPolicyTest : public ::testing::Test {
 protected:
  /// Nothing to do for `time`; returns how much of it was spent awake.
  Duration wait(PollPolicy& policy, Duration time) {
    const auto begin = now_;
    auto next = Next::look;
    for (; next == Next::look && now_ < begin + time; now_ += kLook) {
      next = policy.on_nothing(now_);
    }
    const auto awake = now_ - begin - (next == Next::sleep ? kLook : Duration::zero());
    now_ = begin + time;
    policy.on_work(now_);
    return awake;
  }
  void wait_often(PollPolicy& policy, Duration time) {
    for (int i = 0; i < 100; ++i) (void)wait(policy, time);
  }

  TimePoint now_{seconds(1000)};
  PollPolicy adaptive_{PollMode::adaptive};
};

TEST_F(PollPolicyTest, EventsSleepAtOnce) {
  PollPolicy policy(PollMode::event);
  wait_often(policy, microseconds(5));
  EXPECT_EQ(wait(policy, microseconds(5)), Duration::zero());
  EXPECT_EQ(policy.counters().sleeps, 101U);
  EXPECT_EQ(policy.counters().spins, 0U);
}

TEST_F(PollPolicyTest, BusyNeverSleeps) {
  PollPolicy policy(PollMode::busy);
  EXPECT_EQ(wait(policy, seconds(1)), seconds(1));
  EXPECT_EQ(policy.counters().sleeps, 0U);
  EXPECT_FALSE(policy.wants_delay(now_ + seconds(10)));
}

TEST_F(PollPolicyTest, ShortWaitsAreSpentAwakeAfterAFew) {
  EXPECT_EQ(wait(adaptive_, microseconds(30)), Duration::zero()) << "nothing is known";
  wait_often(adaptive_, microseconds(30));
  EXPECT_EQ(wait(adaptive_, microseconds(30)), microseconds(30));
  EXPECT_EQ(adaptive_.budget(), PollPolicy::kLongestSpin);
  const auto sleeps = adaptive_.counters().sleeps;
  wait_often(adaptive_, microseconds(30));
  EXPECT_EQ(adaptive_.counters().sleeps, sleeps);
  EXPECT_GT(adaptive_.counters().spins, 100U);
}

TEST_F(PollPolicyTest, LongWaitsEndInSleepAtOnceAfterMore) {
  wait_often(adaptive_, microseconds(30));
  const auto in_vain = adaptive_.counters().spins_in_vain;
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), PollPolicy::kLongestSpin);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, in_vain + 1);
  wait_often(adaptive_, milliseconds(2));
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), Duration::zero());
}

/// As with a request each 2 ms that is answered in 60 us.
TEST_F(PollPolicyTest, OneShortWaitInTwoKeepsItAwake) {
  for (int i = 0; i < 50; ++i) {
    (void)wait(adaptive_, microseconds(60));
    (void)wait(adaptive_, milliseconds(2));
  }
  EXPECT_EQ(wait(adaptive_, microseconds(60)), microseconds(60));
}

TEST_F(PollPolicyTest, SleepsAgainWhenItWasWokenForNothing) {
  wait_often(adaptive_, microseconds(30));
  const auto in_vain = adaptive_.counters().spins_in_vain;
  now_ += PollPolicy::kLongestSpin;
  EXPECT_EQ(adaptive_.on_nothing(now_), Next::look);
  now_ += PollPolicy::kLongestSpin;
  EXPECT_EQ(adaptive_.on_nothing(now_), Next::sleep);
  now_ += microseconds(1);
  EXPECT_EQ(adaptive_.on_nothing(now_), Next::sleep);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, in_vain + 1);
}

TEST_F(PollPolicyTest, DoesNotSpinWhileThreadsWaitForProcessors) {
  Duration delay{};
  const auto pass = [&](Duration delayed) {
    EXPECT_TRUE(adaptive_.wants_delay(now_));
    adaptive_.on_delay(delay += delayed, now_);
    EXPECT_FALSE(adaptive_.wants_delay(now_));
    wait_often(adaptive_, PollPolicy::kDelayPeriod / 100);
  };
  pass(Duration::zero());
  EXPECT_EQ(wait(adaptive_, microseconds(30)), microseconds(30));
  pass(PollPolicy::kDelayPeriod / 2);
  EXPECT_EQ(wait(adaptive_, microseconds(30)), Duration::zero());
  pass(Duration::zero());
  EXPECT_EQ(wait(adaptive_, microseconds(30)), microseconds(30)) << "at once, as before";
  pass(PollPolicy::kDelayPeriod / (2 * PollPolicy::kCrowdedShare));
  EXPECT_EQ(wait(adaptive_, microseconds(30)), microseconds(30)) << "a little is nothing";
}

TEST_F(PollPolicyTest, DoesNotSpinWhereNobodyKnowsTheDelay) {
  wait_often(adaptive_, microseconds(30));
  adaptive_.on_delay(std::nullopt, now_);
  EXPECT_EQ(wait(adaptive_, microseconds(30)), Duration::zero());
}

}  // namespace
}  // namespace ipoib::daemon
