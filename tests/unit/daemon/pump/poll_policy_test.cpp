#include "daemon/pump/poll_policy.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

using Next = PollPolicy::Next;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPoll = microseconds(1);
constexpr Duration kWork = microseconds(10);
constexpr Duration kBudget = PollPolicy::kSpinPerWork * kWork;

class PollPolicyTest : public ::testing::Test {
 protected:
  void work(PollPolicy& policy, Duration time = kWork) {
    policy.on_work(now_);
    now_ += time;
  }
  /// No work for `time`. Returns how much of it was spent polling.
  Duration wait(PollPolicy& policy, Duration time, Duration poll = kPoll) {
    const auto begin = now_;
    auto awake = time;
    for (; now_ < begin + time; now_ += poll) {
      if (policy.on_idle(now_) != Next::sleep) continue;
      awake = now_ - begin;
      break;
    }
    now_ = begin + time;
    return awake;
  }

  /// Enough packets to be expected, one after each `pause`.
  void keep_coming(Duration pause, Duration poll = kPoll) {
    for (int i = 0; i <= PollPolicy::kSteady; ++i) {
      (void)wait(adaptive_, pause, poll);
      work(adaptive_);
    }
  }

  TimePoint now_{seconds(1000)};
  PollPolicy adaptive_{PollMode::adaptive};
};

TEST_F(PollPolicyTest, EventModeSleepsAtOnce) {
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

TEST_F(PollPolicyTest, BusyPollsAreNoSpins) {
  PollPolicy policy(PollMode::busy);
  (void)wait(policy, milliseconds(1));
  work(policy);
  EXPECT_EQ(policy.counters().spins, 0U);
}

/// What others have had of one pause says nothing about the next one.
TEST_F(PollPolicyTest, PollsAgainWhenOthersNoLongerNeedTheCpu) {
  keep_coming(milliseconds(2));
  ASSERT_LT(wait(adaptive_, milliseconds(2), microseconds(100)), milliseconds(2));
  work(adaptive_);
  keep_coming(milliseconds(2));
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), milliseconds(2));
}

/// The share of the others falls while it sleeps, since it does not see them then.
TEST_F(PollPolicyTest, SleepsOnIfItIsWokenWithoutWork) {
  keep_coming(milliseconds(2));
  ASSERT_LT(wait(adaptive_, microseconds(300), microseconds(60)), microseconds(300));
  now_ += milliseconds(1);
  EXPECT_EQ(adaptive_.on_idle(now_), Next::sleep);
}

TEST_F(PollPolicyTest, TheModeCanChange) {
  PollPolicy policy(PollMode::busy);
  ASSERT_EQ(policy.on_idle(now_), Next::poll);
  policy.set_mode(PollMode::event);
  EXPECT_EQ(policy.on_idle(now_), Next::sleep);
}

TEST_F(PollPolicyTest, SleepsBeforeItHasWorked) {
  EXPECT_EQ(wait(adaptive_, microseconds(30)), Duration::zero());
}

TEST_F(PollPolicyTest, PollsInProportionToItsWork) {
  work(adaptive_);
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), kBudget);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, 1U);
  work(adaptive_, 2 * kWork);
  EXPECT_EQ(wait(adaptive_, milliseconds(2)), 2 * kBudget);
  EXPECT_EQ(adaptive_.counters().sleeps, 2U);
}

TEST_F(PollPolicyTest, PollsWhilePacketsKeepComing) {
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

TEST_F(PollPolicyTest, SleepsAfterALongerPause) {
  keep_coming(milliseconds(2));
  (void)wait(adaptive_, PollPolicy::kSteadyPause + milliseconds(1));
  work(adaptive_);
  for (int i = 1; i < PollPolicy::kSteady; ++i) {  // one less than is needed
    (void)wait(adaptive_, milliseconds(2));
    work(adaptive_);
  }
  EXPECT_EQ(wait(adaptive_, seconds(1)), kBudget);
}

/// If every poll takes long, no other thread has preempted it.
TEST_F(PollPolicyTest, PollsWhilePacketsKeepComingOnASlowCpu) {
  constexpr Duration kSlowPoll = 3 * PollPolicy::kMaxPoll;
  keep_coming(milliseconds(2), kSlowPoll);
  EXPECT_GE(wait(adaptive_, seconds(1), kSlowPoll), PollPolicy::kSteadyPause);
}

TEST_F(PollPolicyTest, SleepsIfOthersNeedTheCpu) {
  constexpr Duration kSlice = microseconds(100);
  keep_coming(milliseconds(2));
  EXPECT_EQ(wait(adaptive_, seconds(1), kSlice), kBudget / PollPolicy::kMaxPoll * kSlice);
}

TEST_F(PollPolicyTest, EventModeNeverPolls) {
  PollPolicy policy(PollMode::event);
  for (int i = 0; i < 100; ++i) work(policy);
  EXPECT_EQ(policy.on_idle(now_), Next::sleep);
}

TEST_F(PollPolicyTest, LimitsTheSpin) {
  work(adaptive_, seconds(10));
  EXPECT_EQ(wait(adaptive_, seconds(1)), PollPolicy::kMaxSpin);
}

TEST_F(PollPolicyTest, DoesNotSleepUnderLoad) {
  for (int i = 0; i < 1000; ++i) {
    work(adaptive_);
    EXPECT_EQ(wait(adaptive_, kBudget / 2), kBudget / 2);
  }
  EXPECT_EQ(adaptive_.counters().sleeps, 0U);
  EXPECT_EQ(adaptive_.counters().spins, 999U);
}

/// The budget saved under load is spent once.
TEST_F(PollPolicyTest, SleepsAfterLoad) {
  for (int i = 0; i < 1000; ++i) work(adaptive_);
  EXPECT_EQ(wait(adaptive_, milliseconds(10)), PollPolicy::kMaxSpin);
  EXPECT_EQ(wait(adaptive_, milliseconds(10)), Duration::zero());
}

TEST_F(PollPolicyTest, SleepsAgainAfterASpuriousWakeup) {
  work(adaptive_);
  (void)wait(adaptive_, milliseconds(2));
  now_ += seconds(1);
  EXPECT_EQ(adaptive_.on_idle(now_), Next::sleep);
  EXPECT_EQ(adaptive_.counters().spins_in_vain, 1U);
  EXPECT_EQ(adaptive_.counters().sleeps, 2U);
}

/// Time of other threads is not charged fully, but still ends the spin.
TEST_F(PollPolicyTest, TimeOfOtherThreadsCountsLittle) {
  constexpr Duration kSlice = milliseconds(3);
  work(adaptive_);
  (void)wait(adaptive_, milliseconds(1));
  work(adaptive_);
  EXPECT_EQ(wait(adaptive_, seconds(1), kSlice), kBudget / PollPolicy::kMaxPoll * kSlice);
}

}  // namespace
}  // namespace ipoib::daemon
