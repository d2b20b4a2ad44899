#include "softib/verbs/attendance.hpp"

#include <gtest/gtest.h>

#include <map>

namespace softib::verbs {
namespace {

using namespace std::chrono_literals;
using transport::Waiter;
using transport::WakeupEntry;

class AttendanceTest : public ::testing::Test {
 protected:
  AttendanceTest() { attendance.add_connection(); }
  [[nodiscard]] bool engine_waits_for(std::size_t entry) {
    const auto set = waiters.find(entry);
    return set == waiters.end() || set->second == Waiter::kEngine;
  }
  [[nodiscard]] bool engine_takes_requests() { return engine_waits_for(WakeupEntry::kRequests); }
  [[nodiscard]] bool engine_takes_responses() { return engine_waits_for(WakeupEntry::kResponses); }
  void post(bool is_any_armed = false) {
    attendance.begin_post(now, is_any_armed);
    attendance.end_post(now += 1ms);  // it takes long to send
  }
  /// A check. Returns whether there is another one.
  [[nodiscard]] bool checks_again() {
    now += kAttendanceCheck;
    const auto next = attendance.check(now);
    EXPECT_TRUE(next == now + kAttendanceCheck || next == ipoib::kNever);
    return next != ipoib::kNever;
  }
  void poll_in_vain() { attendance.on_empty_poll(now, false); }
  /// The program posts and polls until it is expected to do so.
  void get_used_to_posting() {
    for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
      post();
      (void)attendance.on_completions(now + 1us);
      now += 1ms;
    }
  }

  ipoib::TimePoint now{1h};
  std::map<std::size_t, std::uint32_t> waiters;
  Attendance attendance{
      [this](std::size_t entry, std::uint32_t waiter) { waiters[entry] = waiter; }};
};

TEST_F(AttendanceTest, RequestsAlwaysFindTheEngineAtFirst) {
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_TRUE(attendance.must_note_poll());
}

TEST_F(AttendanceTest, AProgramThatPollsInVainTakesRequestsItself) {
  poll_in_vain();
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(attendance.must_note_poll());
  EXPECT_TRUE(attendance.is_by_polling());
}

TEST_F(AttendanceTest, OneThatFindsCompletionsMayBeDone) {
  poll_in_vain();
  ASSERT_TRUE(attendance.must_note_completions());
  EXPECT_TRUE(attendance.on_completions(now));
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(attendance.on_completions(now));  // the engine attends already
}

TEST_F(AttendanceTest, UnlessItIsUsedToGoOn) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    poll_in_vain();
    (void)attendance.on_completions(now);
  }
  poll_in_vain();
  EXPECT_FALSE(attendance.must_note_completions());
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(AttendanceTest, OneThatDoesNotGoOnIsNotBelievedAgainAtOnce) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    poll_in_vain();
    (void)attendance.on_completions(now);
  }
  poll_in_vain();
  ASSERT_FALSE(attendance.must_note_completions());
  (void)attendance.start_checks(now);
  while (!engine_takes_requests()) ASSERT_TRUE(checks_again());
  EXPECT_TRUE(attendance.must_note_completions());
}

TEST_F(AttendanceTest, AlsoIfItPostsMeanwhile) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    (void)attendance.on_completions(now);
    for (int request = 0; request < 5; ++request) post();
  }
  (void)attendance.on_completions(now);
  EXPECT_FALSE(attendance.must_note_completions());
}

TEST_F(AttendanceTest, OneThatPostsIsExpectedToPollIfItIsUsedToIt) {
  post();
  EXPECT_TRUE(engine_takes_requests());
  (void)attendance.on_completions(now);
  get_used_to_posting();
  EXPECT_TRUE(engine_takes_requests());
  post();
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(AttendanceTest, OneThatPostsWithoutPollingIsNot) {
  get_used_to_posting();
  post();
  ASSERT_EQ(attendance.start_checks(now), now + kAttendanceCheck);
  now += kAttendanceCheck;
  EXPECT_EQ(attendance.check(now), now + kAttendanceCheck);  // it has just been expected
  now += kAttendanceCheck;
  EXPECT_EQ(attendance.check(now), now + kAttendanceCheck) << "the rings are read once more";
  EXPECT_TRUE(engine_takes_requests());
  post();
  EXPECT_TRUE(engine_takes_requests());
  now += kAttendanceCheck;
  EXPECT_EQ(attendance.check(now), ipoib::kNever);
}

TEST_F(AttendanceTest, TheEngineAttendsAgainWhenNobodyPolls) {
  poll_in_vain();
  (void)attendance.start_checks(now);
  now += kAttendanceCheck;
  (void)attendance.check(now);
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(attendance.must_note_poll());
  now += kAttendanceCheck;
  (void)attendance.check(now);
  EXPECT_FALSE(engine_takes_requests());
  now += kAttendanceCheck;
  (void)attendance.check(now);
  EXPECT_TRUE(engine_takes_requests());
}

TEST_F(AttendanceTest, AnEarlyCheckIsNone) {
  poll_in_vain();
  const auto when = attendance.start_checks(now);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(attendance.check(when - 1ns), when);
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(AttendanceTest, AnArmedQueueIsServedByTheEngine) {
  poll_in_vain();
  attendance.on_armed();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_TRUE(engine_takes_responses());
  attendance.on_empty_poll(now, true);
  EXPECT_TRUE(engine_takes_requests());
  get_used_to_posting();
  post(true);
  EXPECT_TRUE(engine_takes_requests());
  attendance.on_empty_poll(now, false);
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(engine_takes_responses());
}

TEST_F(AttendanceTest, ResponsesWaitForAPoll) { EXPECT_FALSE(engine_takes_responses()); }

TEST_F(AttendanceTest, RequestsThatWaitForThemFindTheEngineIfNobodyPolls) {
  post();
  attendance.set_needs_responses(true);
  EXPECT_FALSE(engine_takes_responses());
  ASSERT_TRUE(attendance.needs_checks());
  (void)attendance.start_checks(now);
  EXPECT_TRUE(checks_again());
  EXPECT_FALSE(engine_takes_responses()) << "it has just posted";
  EXPECT_TRUE(attendance.is_program_present());
  post();
  EXPECT_TRUE(checks_again());
  EXPECT_TRUE(engine_takes_responses());
  EXPECT_FALSE(attendance.is_program_present());
  EXPECT_FALSE(checks_again());
  attendance.set_needs_responses(true);
  EXPECT_TRUE(engine_takes_responses());
  attendance.set_needs_responses(false);
  EXPECT_FALSE(engine_takes_responses());
  EXPECT_EQ(attendance.start_checks(now), ipoib::kNever);
}

/// It is not waited for each time that its requests need responses.
TEST_F(AttendanceTest, AProgramThatOnlyPostsIsNotPresent) {
  attendance.set_needs_responses(true);
  (void)attendance.start_checks(now);
  for (int checks = 0; checks < 5 && checks_again(); ++checks) post();
  for (int i = 0; i < 3; ++i) {
    attendance.set_needs_responses(false);
    post();
    attendance.set_needs_responses(true);
    EXPECT_FALSE(attendance.is_program_present());
    EXPECT_TRUE(engine_takes_responses());
    EXPECT_EQ(attendance.start_checks(now), now) << "they may be there: the rings have to be read";
    EXPECT_EQ(attendance.check(now), ipoib::kNever);
  }
  poll_in_vain();
  EXPECT_TRUE(attendance.is_program_present());
}

TEST_F(AttendanceTest, AProgramThatWaitsForAnEventIsNotPresent) {
  post();
  attendance.set_needs_responses(true);
  ASSERT_TRUE(attendance.is_program_present());
  attendance.on_armed();
  EXPECT_FALSE(attendance.is_program_present());
}

TEST_F(AttendanceTest, AnyPollTakesThemAgain) {
  const std::function<void()> polls[] = {[&] { poll_in_vain(); },
                                         [&] { (void)attendance.must_note_completions(); }};
  for (const auto& poll : polls) {
    attendance.set_needs_responses(true);
    (void)attendance.start_checks(now);
    while (checks_again()) {
    }
    post();
    ASSERT_TRUE(engine_takes_responses());
    poll();
    EXPECT_FALSE(engine_takes_responses());
  }
}

TEST_F(AttendanceTest, WithoutConnectionsNothingIsNoted) {
  poll_in_vain();
  attendance.add_connection();
  attendance.remove_connection();
  EXPECT_TRUE(attendance.is_by_polling());
  attendance.remove_connection();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(attendance.must_note_poll());
  EXPECT_FALSE(attendance.must_note_completions());
  attendance.on_armed();
  EXPECT_FALSE(attendance.is_by_engine());
}

}  // namespace
}  // namespace softib::verbs
