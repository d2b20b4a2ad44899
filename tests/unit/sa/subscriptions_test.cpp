#include "sa/subscriptions.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>

#include "ipoib/log.hpp"

namespace ipoib::sa {
namespace {

using std::chrono::seconds;

class SubscriptionsTest : public ::testing::Test {
 protected:
  std::vector<Subscriptions::Asked> asked() { return std::exchange(subscriptions.questions(), {}); }
  void succeed(const Subscriptions::Asked& question) {
    subscriptions.on_answer(question.id, {{}, question.query.record}, now);
  }
  void refuse(const Subscriptions::Asked& question) {
    subscriptions.on_answer(
        question.id, {{}, SaFailure{FailureKind::status, wire::SaStatus::no_resources, {}}}, now);
  }
  [[nodiscard]] std::ptrdiff_t lines() const { return std::ranges::count(said.str(), '\n'); }

  std::ostringstream said;
  Logger log{"sa", std::make_shared<spdlog::sinks::ostream_sink_st>(said)};
  TimePoint now{seconds(1000)};
  Subscriptions subscriptions{log, 1};
};

TEST_F(SubscriptionsTest, AreToPortsAndGroupsThatComeAndGo) {
  EXPECT_TRUE(asked().empty()) << "nobody is there to ask";
  subscriptions.renew();
  const auto questions = asked();
  std::vector<std::uint16_t> traps;
  for (const auto& question : questions) traps.push_back(question.query.record.trap_number);
  EXPECT_THAT(traps, ::testing::ElementsAre(64, 65, 66, 67));
  for (const auto& question : questions) succeed(question);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
}

TEST_F(SubscriptionsTest, AreRenewedAndOldAnswersIgnored) {
  subscriptions.renew();
  const auto old = asked();
  subscriptions.renew();
  const auto questions = asked();
  ASSERT_EQ(questions.size(), 4U);
  for (const auto& question : old) refuse(question);
  EXPECT_EQ(subscriptions.next_deadline(), kNever) << "who says so is not who is asked now";
  for (const auto& question : questions) succeed(question);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  EXPECT_EQ(lines(), 0);
  subscriptions.renew();
  EXPECT_EQ(asked().size(), 4U);
}

TEST_F(SubscriptionsTest, AreTriedAgainEverMoreSeldomAndToldOfOnce) {
  subscriptions.renew();
  auto questions = asked();
  auto question = questions.back();
  questions.pop_back();
  for (const auto& other : questions) succeed(other);
  Duration last{};
  for (int i = 0; i < 20; ++i) {
    refuse(question);
    const auto due = subscriptions.next_deadline();
    ASSERT_NE(due, kNever);
    last = due - now;
    EXPECT_LE(last, Subscriptions::kBackoff.last * 5 / 4);
    subscriptions.on_time(due - Duration(1));
    EXPECT_TRUE(asked().empty());
    now = due;
    subscriptions.on_time(now);
    questions = asked();
    ASSERT_EQ(questions.size(), 1U);
    question = questions[0];
    EXPECT_EQ(question.query.record.trap_number, 67);
  }
  EXPECT_GT(last, Subscriptions::kBackoff.last / 2);
  EXPECT_EQ(lines(), 1);
  EXPECT_THAT(said.str(), ::testing::HasSubstr("no resources"));
  succeed(question);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  subscriptions.renew();
  refuse(asked().back());
  EXPECT_EQ(lines(), 2) << "another row";
  EXPECT_LE(subscriptions.next_deadline() - now, Subscriptions::kBackoff.first * 5 / 4);
}

TEST_F(SubscriptionsTest, WaitWhileThereIsNobodyToAsk) {
  subscriptions.renew();
  const auto questions = asked();
  refuse(questions[0]);
  subscriptions.suspend();
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  succeed(questions[1]);
  EXPECT_TRUE(subscriptions.ends().empty());
}

TEST_F(SubscriptionsTest, AreEnded) {
  subscriptions.renew();
  const auto ends = subscriptions.ends();
  ASSERT_EQ(ends.size(), 4U);
  for (const auto& query : ends) {
    EXPECT_FALSE(query.record.subscribe);
    EXPECT_EQ(query.record.qpn, Qpn(1));
  }
}

}  // namespace
}  // namespace ipoib::sa
