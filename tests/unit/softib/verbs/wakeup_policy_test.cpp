#include "softib/verbs/wakeup_policy.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <span>

#include "tests/unit/link/states_document.hpp"

namespace softib::verbs {
namespace {

using namespace std::chrono_literals;
using transport::Waiter;
using transport::WakeupEntry;

/// A completion queue, and the policy's view of it.
struct Queue {
  explicit Queue(WakeupPolicy& policy) { policy.add(wakeups, model); }
  void arm() { EXPECT_FALSE(model.arm(false)); }
  /// A completion raises the event.
  void disarm() {
    model.next() = {};
    EXPECT_EQ(model.push(nullptr, 0, false), hca::CompletionQueue::PushResult::stored_and_notify);
    ibv_wc taken{};
    EXPECT_EQ(model.poll(std::span(&taken, 1)), 1);
  }
  hca::CompletionQueue model{16};
  QueueWakeups wakeups;
};

class WakeupPolicyTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint32_t waiter_for(std::size_t entry) {
    const auto set = waiters.find(entry);
    return set == waiters.end() ? Waiter::kEngine : set->second;
  }
  [[nodiscard]] bool engine_takes_requests() {
    return waiter_for(WakeupEntry::kRequests) == Waiter::kEngine;
  }
  [[nodiscard]] bool engine_takes_responses() {
    return waiter_for(WakeupEntry::kResponses) == Waiter::kEngine;
  }
  void post() {
    policy.begin_post(now);
    policy.end_call(now += 1ms);  // it takes long to send
  }
  /// A check. Returns whether there is another one.
  [[nodiscard]] bool checks_again() {
    now += kPollCheck;
    const auto next = policy.check(now);
    EXPECT_TRUE(next == now + kPollCheck || next == ipoib::kNever);
    return next != ipoib::kNever;
  }
  void poll_in_vain() { policy.on_empty_poll(queue.wakeups, now); }
  void arm(std::optional<std::uint32_t> reader = std::nullopt) {
    queue.arm();
    policy.on_armed(queue.wakeups, reader);
  }
  /// The program polls and takes completions until it is expected to poll again.
  void get_used_to_polling() {
    for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
      poll_in_vain();
      (void)policy.on_completions(now);
    }
  }
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
  int sets = 0;
  WakeupPolicy policy{[this](std::size_t entry, std::uint32_t waiter) {
    waiters[entry] = waiter;
    ++sets;
  }};
  Queue queue{policy};
};

// --- Datagrams -----------------------------------------------------------------------------------

/// Tests named after the rows of docs/states.md.
class WakeupPolicyStates : public WakeupPolicyTest {
 protected:
  static constexpr Qpn kQp{0x123};
  static constexpr Qpn kOther{0x124};
  static constexpr std::uint32_t kReader = Waiter::kFirstWakeupFd + 5;

  [[nodiscard]] std::uint32_t waiter_for(Qpn qp) {
    return WakeupPolicyTest::waiter_for(QpnLayout::index(qp));
  }
  [[nodiscard]] std::uint32_t multicast_waiter() {
    return WakeupPolicyTest::waiter_for(WakeupEntry::kMulticast);
  }
};

TEST_F(WakeupPolicyStates, Wakeup_Queue_NewQueuePair) {
  poll_in_vain();
  policy.add_receiver(kQp, queue.wakeups);
  EXPECT_EQ(waiter_for(kQp), Waiter::kNone);
  policy.remove_receiver(kQp, queue.wakeups);
  EXPECT_EQ(waiter_for(kQp), Waiter::kEngine);
  arm(kReader);
  EXPECT_EQ(waiter_for(kQp), Waiter::kEngine) << "its number may be that of another one";
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_Poll) {
  policy.add_receiver(kQp, queue.wakeups);
  EXPECT_EQ(waiter_for(kQp), Waiter::kEngine);
  EXPECT_TRUE(policy.must_note_poll(queue.wakeups));
  poll_in_vain();
  EXPECT_EQ(waiter_for(kQp), Waiter::kNone);
  EXPECT_FALSE(policy.must_note_poll(queue.wakeups));
  arm(kReader);
  queue.disarm();
  poll_in_vain();
  EXPECT_EQ(waiter_for(kQp), Waiter::kNone);
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_Poll_Armed) {
  policy.add_receiver(kQp, queue.wakeups);
  arm(kReader);
  poll_in_vain();
  EXPECT_EQ(waiter_for(kQp), kReader);
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_Arm) {
  policy.add_receiver(kQp, queue.wakeups);
  policy.add_receiver(kOther, queue.wakeups);
  poll_in_vain();
  arm(kReader);
  EXPECT_EQ(waiter_for(kQp), kReader);
  EXPECT_EQ(waiter_for(kOther), kReader);
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_Arm_Engine) {
  policy.add_receiver(kQp, queue.wakeups);
  poll_in_vain();
  arm(Waiter::kEngine);
  EXPECT_EQ(waiter_for(kQp), Waiter::kEngine);
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_Arm_NoChannel) {
  policy.add_receiver(kQp, queue.wakeups);
  poll_in_vain();
  arm();
  EXPECT_EQ(waiter_for(kQp), Waiter::kNone);
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_ChannelRead) {
  policy.add_receiver(kQp, queue.wakeups);
  Queue other(policy);
  policy.add_receiver(kOther, other.wakeups);
  other.arm();
  policy.on_armed(other.wakeups, kReader + 1);
  arm(kReader);
  waiters.clear();
  policy.on_channel_read(kReader);
  EXPECT_EQ(waiter_for(kQp), kReader) << "set again, so that senders wake it again";
  EXPECT_FALSE(waiters.contains(QpnLayout::index(kOther)));
}

TEST_F(WakeupPolicyStates, Wakeup_Queue_ChannelRead_NotArmed) {
  policy.add_receiver(kQp, queue.wakeups);
  arm(kReader);
  queue.disarm();
  sets = 0;
  policy.on_channel_read(kReader);
  EXPECT_EQ(sets, 0);
  arm(Waiter::kEngine);
  sets = 0;
  policy.on_channel_read(Waiter::kEngine);
  EXPECT_EQ(sets, 0) << "the engine looks for packets by itself";
}

TEST_F(WakeupPolicyStates, Wakeup_Multicast_Engine) {
  EXPECT_EQ(multicast_waiter(), Waiter::kEngine);
  Queue other(policy);
  policy.add_receiver(kQp, queue.wakeups);
  policy.add_receiver(kOther, other.wakeups);
  for (auto* const polled : {&other, &queue}) {
    EXPECT_EQ(multicast_waiter(), Waiter::kEngine);
    policy.on_empty_poll(polled->wakeups, now);
  }
  EXPECT_EQ(multicast_waiter(), Waiter::kNone);
  arm(Waiter::kEngine);
  EXPECT_EQ(multicast_waiter(), Waiter::kEngine);
  policy.remove_receiver(kQp, queue.wakeups);
  EXPECT_EQ(multicast_waiter(), Waiter::kNone) << "the queue has no queue pairs any more";
}

TEST_F(WakeupPolicyStates, Wakeup_Multicast_Channel) {
  Queue other(policy);
  policy.add_receiver(kQp, queue.wakeups);
  policy.add_receiver(kOther, other.wakeups);
  policy.on_empty_poll(other.wakeups, now);
  arm(kReader);
  EXPECT_EQ(multicast_waiter(), kReader);
  queue.disarm();
  policy.on_empty_poll(other.wakeups, now);
  policy.remove(other.wakeups);
  poll_in_vain();
  EXPECT_EQ(multicast_waiter(), Waiter::kNone);
}

// --- Connections ---------------------------------------------------------------------------------

/// As WakeupPolicyStates, with a connection.
class WakeupOfConnectionsStates : public WakeupPolicyTest {
 protected:
  WakeupOfConnectionsStates() {
    poll_in_vain();  // for datagrams, the queue's packets are the program's
    policy.add_connection();
  }
};
using WakeupOfConnectionsTest = WakeupOfConnectionsStates;

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_First) {
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(engine_takes_responses()) << "responses wait for a poll";
  EXPECT_TRUE(policy.must_note_poll(queue.wakeups));
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Last) {
  poll_in_vain();
  policy.add_connection();
  policy.remove_connection();
  EXPECT_FALSE(engine_takes_requests()) << "one is left";
  policy.remove_connection();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(engine_takes_responses());
  poll_in_vain();
  EXPECT_FALSE(policy.must_note_poll(queue.wakeups));
  EXPECT_FALSE(policy.must_note_completions());
  arm();
  EXPECT_FALSE(policy.engine_takes());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Poll) {
  poll_in_vain();
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(policy.must_note_poll(queue.wakeups));
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Poll_Armed) {
  arm();
  poll_in_vain();
  EXPECT_TRUE(engine_takes_requests());
  queue.disarm();
  poll_in_vain();
  EXPECT_FALSE(engine_takes_requests());
  EXPECT_FALSE(engine_takes_responses());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Completions) {
  poll_in_vain();
  ASSERT_TRUE(policy.must_note_completions());
  EXPECT_TRUE(policy.on_completions(now));
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_FALSE(policy.on_completions(now)) << "the engine takes them already";
}

TEST_F(WakeupOfConnectionsTest, TheEndOfACallDelaysThePoll) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    poll_in_vain();
    (void)policy.on_completions(now);
    policy.end_call(now += 1ms);  // the call has read the sockets
  }
  poll_in_vain();
  EXPECT_FALSE(policy.must_note_completions()) << "it is used to poll";
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Completions_Habit) {
  get_used_to_polling();
  poll_in_vain();
  EXPECT_FALSE(policy.must_note_completions());
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Post) {
  post();
  EXPECT_TRUE(engine_takes_requests());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Post_Habit) {
  (void)policy.on_completions(now);
  get_used_to_posting();
  EXPECT_TRUE(engine_takes_requests());
  post();
  EXPECT_FALSE(engine_takes_requests());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Post_Armed) {
  get_used_to_posting();
  arm();
  post();
  EXPECT_TRUE(engine_takes_requests());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Arm) {
  poll_in_vain();
  arm();
  EXPECT_TRUE(engine_takes_requests());
  EXPECT_TRUE(engine_takes_responses());
  EXPECT_FALSE(policy.is_program_present());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Absent) {
  poll_in_vain();
  (void)policy.start_checks(now);
  EXPECT_TRUE(checks_again());
  EXPECT_FALSE(engine_takes_requests()) << "it had polled before the check";
  EXPECT_FALSE(policy.must_note_poll(queue.wakeups));
  EXPECT_TRUE(checks_again());
  EXPECT_FALSE(engine_takes_requests()) << "it has polled since";
  EXPECT_TRUE(checks_again());
  EXPECT_TRUE(engine_takes_requests());
}

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_NeedsResponses) {
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

/// A program that only posts is not waited for each time that its requests need responses.
TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_NeedsResponses_Absent) {
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

TEST_F(WakeupOfConnectionsStates, Wakeup_Connections_Poll_Absent) {
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

TEST_F(WakeupOfConnectionsTest, AProgramThatStopsToPollLosesTheHabit) {
  get_used_to_polling();
  poll_in_vain();
  ASSERT_FALSE(policy.must_note_completions());
  (void)policy.start_checks(now);
  while (!engine_takes_requests()) ASSERT_TRUE(checks_again());
  EXPECT_TRUE(policy.must_note_completions());
}

TEST_F(WakeupOfConnectionsTest, PostsBetweenPollsDoNotEndTheHabit) {
  for (std::uint32_t i = 0; i < PollHabit::kFewest; ++i) {
    (void)policy.on_completions(now);
    for (int request = 0; request < 5; ++request) post();
  }
  (void)policy.on_completions(now);
  EXPECT_FALSE(policy.must_note_completions());
}

TEST_F(WakeupOfConnectionsTest, AProgramThatPostsWithoutPollingLosesTheHabit) {
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

TEST_F(WakeupOfConnectionsTest, ACheckBeforeItsTimeChangesNothing) {
  poll_in_vain();
  const auto when = policy.start_checks(now);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(policy.check(when - 1ns), when);
  EXPECT_FALSE(engine_takes_requests());
}

TEST(WakeupStatesDocument, EachRowHasATestAndViceVersa) {
  auto rows = ipoib::rows_of_document(IPOIB_STATES_DOCUMENT);
  std::erase_if(rows, std::not_fn(ipoib::is_about_wakeups));
  EXPECT_EQ(rows, ipoib::tests_of_rows());
}

}  // namespace
}  // namespace softib::verbs
