#include "softib/verbs/wakeup_policy.hpp"

#include <gtest/gtest.h>

#include <map>

namespace softib::verbs {
namespace {

using namespace std::chrono_literals;
using transport::Waiter;
using transport::WakeupEntry;

class WakeupPolicyTest : public ::testing::Test {
 protected:
  WakeupPolicyTest() { policy.add_connection(); }
  [[nodiscard]] bool engine_waits_for(std::size_t entry) {
    const auto set = waiters.find(entry);
    return set == waiters.end() || set->second == Waiter::kEngine;
  }
  [[nodiscard]] bool engine_takes_requests() { return engine_waits_for(WakeupEntry::kRequests); }
  [[nodiscard]] bool engine_takes_responses() { return engine_waits_for(WakeupEntry::kResponses); }
  void post(bool is_any_armed = false) {
    policy.begin_post(now, is_any_armed);
    policy.end_post(now += 1ms);  // it takes long to send
  }
  /// A check. Returns whether there is another one.
  [[nodiscard]] bool checks_again() {
    now += kPollCheck;
    const auto next = policy.check(now);
    EXPECT_TRUE(next == now + kPollCheck || next == ipoib::kNever);
    return next != ipoib::kNever;
  }
  void poll_in_vain() { policy.on_empty_poll(now, false); }
  /// The program posts and polls until it is expected to do so.
  void get_used_to_posting() {
    for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
      post();
      (void)policy.on_completions(now + 1us);
      now += 1ms;
    }
  }

  ipoib::TimePoint now{1h};
  std::map<std::size_t, std::uint32_t> waiters;
  WakeupPolicy policy{[this](std::size_t entry, std::uint32_t waiter) { waiters[entry] = waiter; }};
};

TEST_F(WakeupPolicyTest, RequestsAlwaysFindTheEngineAtFirst) {
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_TRUE(policy.must_note_poll());
}

TEST_F(WakeupPolicyTest, AProgramThatPollsInVainTakesRequestsItself) {
  poll_in_vain();
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(policy.must_note_poll());
  EXPECT_TRUE(policy.program_takes());
}

TEST_F(WakeupPolicyTest, OneThatFindsCompletionsMayBeDone) {
  poll_in_vain();
  ASSERT_TRUE(policy.must_note_completions());
  EXPECT_TRUE(policy.on_completions(now));
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(policy.on_completions(now));  // the engine takes them already
}

TEST_F(WakeupPolicyTest, UnlessItIsUsedToGoOn) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    poll_in_vain();
    (void)policy.on_completions(now);
  }
  poll_in_vain();
  EXPECT_FALSE(policy.must_note_completions());
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(WakeupPolicyTest, OneThatDoesNotGoOnIsNotBelievedAgainAtOnce) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    poll_in_vain();
    (void)policy.on_completions(now);
  }
  poll_in_vain();
  ASSERT_FALSE(policy.must_note_completions());
  (void)policy.start_checks(now);
  while (!engine_takes_requests()) ASSERT_TRUE(checks_again());
  EXPECT_TRUE(policy.must_note_completions());
}

TEST_F(WakeupPolicyTest, AlsoIfItPostsMeanwhile) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    (void)policy.on_completions(now);
    for (int request = 0; request < 5; ++request) post();
  }
  (void)policy.on_completions(now);
  EXPECT_FALSE(policy.must_note_completions());
}

TEST_F(WakeupPolicyTest, OneThatPostsIsExpectedToPollIfItIsUsedToIt) {
  post();
  EXPECT_TRUE(engine_takes_requests());
  (void)policy.on_completions(now);
  get_used_to_posting();
  EXPECT_TRUE(engine_takes_requests());
  post();
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(WakeupPolicyTest, OneThatPostsWithoutPollingIsNot) {
  get_used_to_posting();
  post();
  ASSERT_EQ(policy.start_checks(now), now + kPollCheck);
  now += kPollCheck;
  EXPECT_EQ(policy.check(now), now + kPollCheck);  // it has just been expected
  now += kPollCheck;
  EXPECT_EQ(policy.check(now), now + kPollCheck) << "the rings are read once more";
  EXPECT_TRUE(engine_takes_requests());
  post();
  EXPECT_TRUE(engine_takes_requests());
  now += kPollCheck;
  EXPECT_EQ(policy.check(now), ipoib::kNever);
}

TEST_F(WakeupPolicyTest, TheEngineTakesThemAgainWhenNobodyPolls) {
  poll_in_vain();
  (void)policy.start_checks(now);
  now += kPollCheck;
  (void)policy.check(now);
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(policy.must_note_poll());
  now += kPollCheck;
  (void)policy.check(now);
  EXPECT_FALSE(engine_takes_requests());
  now += kPollCheck;
  (void)policy.check(now);
  EXPECT_TRUE(engine_takes_requests());
}

TEST_F(WakeupPolicyTest, AnEarlyCheckIsNone) {
  poll_in_vain();
  const auto when = policy.start_checks(now);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(policy.check(when - 1ns), when);
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(WakeupPolicyTest, AnArmedQueueIsServedByTheEngine) {
  poll_in_vain();
  policy.on_armed();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_TRUE(engine_takes_responses());
  policy.on_empty_poll(now, true);
  EXPECT_TRUE(engine_takes_requests());
  get_used_to_posting();
  post(true);
  EXPECT_TRUE(engine_takes_requests());
  policy.on_empty_poll(now, false);
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(engine_takes_responses());
}

TEST_F(WakeupPolicyTest, ResponsesWaitForAPoll) { EXPECT_FALSE(engine_takes_responses()); }

TEST_F(WakeupPolicyTest, RequestsThatWaitForThemFindTheEngineIfNobodyPolls) {
  post();
  policy.set_needs_responses(true);
  EXPECT_FALSE(engine_takes_responses());
  ASSERT_TRUE(policy.needs_checks());
  (void)policy.start_checks(now);
  EXPECT_TRUE(checks_again());
  EXPECT_FALSE(engine_takes_responses()) << "it has just posted";
  EXPECT_TRUE(policy.is_program_present());
  post();
  EXPECT_TRUE(checks_again());
  EXPECT_TRUE(engine_takes_responses());
  EXPECT_FALSE(policy.is_program_present());
  EXPECT_FALSE(checks_again());
  policy.set_needs_responses(true);
  EXPECT_TRUE(engine_takes_responses());
  policy.set_needs_responses(false);
  EXPECT_FALSE(engine_takes_responses());
  EXPECT_EQ(policy.start_checks(now), ipoib::kNever);
}

/// It is not waited for each time that its requests need responses.
TEST_F(WakeupPolicyTest, AProgramThatOnlyPostsIsNotPresent) {
  policy.set_needs_responses(true);
  (void)policy.start_checks(now);
  for (int checks = 0; checks < 5 && checks_again(); ++checks) post();
  for (int i = 0; i < 3; ++i) {
    policy.set_needs_responses(false);
    post();
    policy.set_needs_responses(true);
    EXPECT_FALSE(policy.is_program_present());
    EXPECT_TRUE(engine_takes_responses());
    EXPECT_EQ(policy.start_checks(now), now) << "they may be there: the rings have to be read";
    EXPECT_EQ(policy.check(now), ipoib::kNever);
  }
  poll_in_vain();
  EXPECT_TRUE(policy.is_program_present());
}

TEST_F(WakeupPolicyTest, AProgramThatWaitsForAnEventIsNotPresent) {
  post();
  policy.set_needs_responses(true);
  ASSERT_TRUE(policy.is_program_present());
  policy.on_armed();
  EXPECT_FALSE(policy.is_program_present());
}

TEST_F(WakeupPolicyTest, AnyPollTakesThemAgain) {
  const std::function<void()> polls[] = {[&] { poll_in_vain(); },
                                         [&] { (void)policy.must_note_completions(); }};
  for (const auto& poll : polls) {
    policy.set_needs_responses(true);
    (void)policy.start_checks(now);
    while (checks_again()) {
    }
    post();
    ASSERT_TRUE(engine_takes_responses());
    poll();
    EXPECT_FALSE(engine_takes_responses());
  }
}

TEST_F(WakeupPolicyTest, WithoutConnectionsNothingIsNoted) {
  poll_in_vain();
  policy.add_connection();
  policy.remove_connection();
  EXPECT_TRUE(policy.program_takes());
  policy.remove_connection();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(policy.must_note_poll());
  EXPECT_FALSE(policy.must_note_completions());
  policy.on_armed();
  EXPECT_FALSE(policy.engine_takes());
}

}  // namespace
}  // namespace softib::verbs
