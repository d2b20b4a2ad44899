#include "softib/verbs/poll_habit.hpp"

#include <gtest/gtest.h>

namespace softib::verbs {
namespace {

using namespace std::chrono_literals;

class PollHabitTest : public ::testing::Test {
 protected:
  /// The program takes completions `times` times, and then polls `after` that.
  void take(std::uint32_t times, ipoib::Duration after = 1us) {
    for (std::uint32_t i = 0; i < times; ++i) {
      habit.on_completions(now);
      habit.on_empty_poll(now + after);
      now += 1ms;
    }
  }

  ipoib::TimePoint now{1h};
  PollHabit habit;
};

TEST_F(PollHabitTest, ManyQuickPollsInARowAreAHabit) {
  take(PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  take(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, OneLatePollBeginsThemAnew) {
  take(PollHabit::kFewest - 1);
  take(1, PollHabit::kSoon + 1ns);
  take(PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  take(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, EmptyPollsAloneSayNothing) {
  for (std::uint32_t i = 0; i < 2 * PollHabit::kFewest; ++i) habit.on_empty_poll(now);
  EXPECT_FALSE(habit.polls_on());
}

TEST_F(PollHabitTest, APollThatFindsMoreCompletionsIsAPoll) {
  for (std::uint32_t i = 0; i <= PollHabit::kFewest; ++i) habit.on_completions(now);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, EachDisappointmentTakesTwiceAsManyPolls) {
  take(PollHabit::kFewest);
  habit.on_absence();
  EXPECT_FALSE(habit.polls_on());
  habit.on_absence();  // nothing was expected
  take(2 * PollHabit::kFewest - 1);
  EXPECT_FALSE(habit.polls_on());
  take(1);
  EXPECT_TRUE(habit.polls_on());
}

TEST_F(PollHabitTest, AnyProgramMayGetTheHabitAgain) {
  for (int i = 0; i < 40; ++i) {
    take(PollHabit::kMost);
    ASSERT_TRUE(habit.polls_on()) << i;
    habit.on_absence();
  }
}

}  // namespace
}  // namespace softib::verbs
