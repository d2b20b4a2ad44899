#include "softib/verbs/poll_habit.hpp"

#include <gtest/gtest.h>

namespace softib::verbs {
namespace {

using namespace std::chrono_literals;

constexpr ipoib::Duration kSoon = 2us;

class PollHabitTest : public ::testing::Test {
 protected:
  /// The program does something `times` times, and then polls `after` that.
  void poll(std::uint32_t times, ipoib::Duration after = 1us) {
    for (std::uint32_t i = 0; i < times; ++i) {
      habit.expect_poll(now);
      habit.on_poll(now + after);
      now += 1ms;
    }
  }

  ipoib::TimePoint now{1h};
  PollHabit habit{kSoon};
};

TEST_F(PollHabitTest, ManyQuickPollsInARowAreAHabit) {
  poll(PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  poll(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, OneLatePollBeginsThemAnew) {
  poll(PollHabit::kFewest - 1);
  poll(1, kSoon + 1ns);
  poll(PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  poll(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, OtherCallsMeanwhileTakeTheirTime) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    habit.expect_poll(now);
    for (int call = 0; call < 3; ++call) {
      habit.begin_call(now += 1us);
      habit.end_call(now += 1ms);
    }
    habit.expect_poll(now += 1us);
    habit.on_poll(now += 1us);
  }
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, ALateCallIsNoPoll) {
  poll(PollHabit::kFewest - 1);
  habit.expect_poll(now);
  habit.begin_call(now += kSoon + 1ns);
  habit.end_call(now);
  habit.on_poll(now);  // nothing is expected
  poll(PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
}

TEST_F(PollHabitTest, CallsAloneSayNothing) {
  for (std::uint32_t i = 0; i < 2 * PollHabit::kFewest; ++i) {
    habit.begin_call(now);
    habit.end_call(now);
    habit.on_poll(now);
  }
  EXPECT_FALSE(habit.polls_on());
}

TEST_F(PollHabitTest, PollsAloneSayNothing) {
  for (std::uint32_t i = 0; i < 2 * PollHabit::kFewest; ++i) habit.on_poll(now);
  EXPECT_FALSE(habit.polls_on());
}

TEST_F(PollHabitTest, EachDisappointmentTakesTwiceAsManyPolls) {
  poll(PollHabit::kFewest);
  habit.on_absence();
  EXPECT_FALSE(habit.polls_on());
  habit.on_absence();  // nothing was expected
  poll(2 * PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  poll(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, AnyProgramMayGetTheHabitAgain) {
  for (int i = 0; i < 40; ++i) {
    poll(PollHabit::kMost);
    ASSERT_TRUE(habit.polls_on()) << i;
    habit.on_absence();
  }
}

}  // namespace
}  // namespace softib::verbs
