#include "daemon/poll_policy.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

using Next = PollPolicy::Next;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLook = microseconds(1);
constexpr Duration kWork = microseconds(10);
constexpr Duration kEarned = PollPolicy::kSpinPerWork * kWork;

class PollPolicyTest : public ::testing::Test {
 protected:
  void work(PollPolicy& policy, Duration time = kWork) {
    policy.on_work(now_);
    now_ += time;
  }
  /// Nothing to do for `time`; returns how much of it was spent awake.
  Duration wait(PollPolicy& policy, Duration time, Duration look = kLook) {
    const auto begin = now_;
    auto awake = time;
    for (; now_ < begin + time; now_ += look) {
      if (policy.on_nothing(now_) != Next::sleep) continue;
      awake = now_ - begin;
      break;
    }
    now_ = begin + time;
    return awake;
  }

  /// As many packets as it takes to be awaited, one after each `pause`.
  void keep_coming(Duration pause, Duration look = kLook) {
    for (int i = 0; i <= PollPolicy::kSteady; ++i) {
      (void)wait(adaptive_, pause, look);
      work(adaptive_);
    }
  }

  TimePoint now_{seconds(1000)};
  PollPolicy adaptive_{PollMode::adaptive};
};

TEST_F(PollPolicyTest, EventsSleepAtOnce) {
  PollPolicy policy(PollMode::event);
  for (int i = 0; i < 100; ++i) {
    work(policy);
    EXPECT_EQ(wait(policy, microseconds(5)), Duration::zero());
  }
  EXPECT_EQ(policy.counters().sleeps, 100U);
  EXPECT_EQ(policy.counters().spins, 0U);
}

TEST_F(PollPolicyTest, BusyNeverSleeps) {
  PollPolicy policy(PollMode::busy);
  EXPECT_EQ(wait(policy, milliseconds(100)), milliseconds(100));
  EXPECT_EQ(policy.counters().sleeps, 0U);
}

TEST_F(PollPolicyTest, SleepsBeforeItHasWorked) {
  EXPECT_EQ(wait(adaptive_, microseconds(30)), Duration::zero());
}

TEST_F(PollPolicyTest, LooksInProportionToItsWork) {
  work(adaptive_);
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), kEarned);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, 1U);
  work(adaptive_, 2 * kWork);
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), 2 * kEarned);
  EXPECT_EQ(adaptive_.counters().sleeps, 2U);
}

TEST_F(PollPolicyTest, AwaitsWhatKeepsComing) {
  keep_coming(milliseconds(2));
  const auto before = adaptive_.counters();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(wait(adaptive_, milliseconds(2)), milliseconds(2));
    work(adaptive_);
  }
  EXPECT_EQ(adaptive_.counters().sleeps, before.sleeps);
  EXPECT_EQ(adaptive_.counters().spins, before.spins + 10);
  EXPECT_EQ(wait(adaptive_, seconds(1)), PollPolicy::kSteadyPause) << "it is overdue";
}

TEST_F(PollPolicyTest, AwaitsNothingAfterALongerPause) {
  keep_coming(milliseconds(2));
  (void)wait(adaptive_, PollPolicy::kSteadyPause + milliseconds(1));
  work(adaptive_);
  EXPECT_EQ(wait(adaptive_, seconds(1)), kEarned);
}

/// Where a look takes long because all does, nobody else has the processor.
TEST_F(PollPolicyTest, AwaitsWhatKeepsComingOnASlowProcessor) {
  constexpr Duration kSlowLook = 3 * PollPolicy::kLongestLook;
  keep_coming(milliseconds(2), kSlowLook);
  EXPECT_GE(wait(adaptive_, seconds(1), kSlowLook), PollPolicy::kSteadyPause);
}

TEST_F(PollPolicyTest, AwaitsNothingBesideOthersThatNeedTheProcessor) {
  constexpr Duration kSlice = microseconds(100);
  keep_coming(milliseconds(2));
  EXPECT_EQ(wait(adaptive_, seconds(1), kSlice), kEarned / PollPolicy::kLongestLook * kSlice);
}

TEST_F(PollPolicyTest, EventsAwaitNothing) {
  PollPolicy policy(PollMode::event);
  for (int i = 0; i < 100; ++i) work(policy);
  EXPECT_EQ(policy.on_nothing(now_), Next::sleep);
}

TEST_F(PollPolicyTest, NeverLooksForLonger) {
  work(adaptive_, seconds(10));
  EXPECT_EQ(wait(adaptive_, seconds(1)), PollPolicy::kLongestSpin);
}

TEST_F(PollPolicyTest, DoesNotSleepUnderLoad) {
  for (int i = 0; i < 1000; ++i) {
    work(adaptive_);
    EXPECT_EQ(wait(adaptive_, kEarned / 2), kEarned / 2);
  }
  EXPECT_EQ(adaptive_.counters().sleeps, 0U);
  EXPECT_EQ(adaptive_.counters().spins, 999U);
}

/// What it saved under load is spent once.
TEST_F(PollPolicyTest, SleepsWhenTheLoadIsOver) {
  for (int i = 0; i < 1000; ++i) work(adaptive_);
  EXPECT_EQ(wait(adaptive_, milliseconds(10)), PollPolicy::kLongestSpin);
  EXPECT_EQ(wait(adaptive_, milliseconds(10)), Duration::zero());
}

TEST_F(PollPolicyTest, SleepsAgainWhenItWasWokenForNothing) {
  work(adaptive_);
  (void)wait(adaptive_, milliseconds(2));
  now_ += seconds(1);
  EXPECT_EQ(adaptive_.on_nothing(now_), Next::sleep);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, 1U);
  EXPECT_EQ(adaptive_.counters().sleeps, 2U);
}

/// It has taken nothing from who had the processor; but it does not go on for ever beside them.
TEST_F(PollPolicyTest, TimeWithoutAProcessorCountsLittle) {
  constexpr Duration kSlice = milliseconds(3);
  work(adaptive_);
  (void)wait(adaptive_, milliseconds(1));
  work(adaptive_);
  EXPECT_EQ(wait(adaptive_, seconds(1), kSlice), kEarned / PollPolicy::kLongestLook * kSlice);
}

}  // namespace
}  // namespace ipoib::daemon
