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
  std::vector<wire::SaRequest> sent() { return std::exchange(subscriptions.requests(), {}); }
  static const wire::InformInfo& inform_info(const wire::SaRequest& request) {
    return std::get<wire::SubscribeQuery>(request.query).record;
  }
  void succeed(const wire::SaRequest& request) {
    subscriptions.on_response({request.id, inform_info(request)}, now);
  }
  void refuse(const wire::SaRequest& request) {
    subscriptions.on_response({request.id, wire::SaFailure(wire::SaStatus::no_resources)}, now);
  }
  [[nodiscard]] std::ptrdiff_t lines() const { return std::ranges::count(logged.str(), '\n'); }

  std::ostringstream logged;
  Logger log{"sa", std::make_shared<spdlog::sinks::ostream_sink_st>(logged)};
  TimePoint now{seconds(1000)};
  Subscriptions subscriptions{log, 1};
};

TEST_F(SubscriptionsTest, CoverPortsAndGroups) {
  EXPECT_TRUE(sent().empty()) << "no SA yet";
  subscriptions.renew();
  const auto requests = sent();
  std::vector<std::uint16_t> traps;
  for (const auto& request : requests) traps.push_back(inform_info(request).trap_number);
  EXPECT_THAT(traps, ::testing::ElementsAre(64, 65, 66, 67));
  for (const auto& request : requests) succeed(request);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
}

TEST_F(SubscriptionsTest, AreRenewedAndOldResponsesIgnored) {
  subscriptions.renew();
  const auto old = sent();
  subscriptions.renew();
  const auto requests = sent();
  ASSERT_EQ(requests.size(), 4U);
  for (const auto& request : old) refuse(request);
  EXPECT_EQ(subscriptions.next_deadline(), kNever) << "response to an old request";
  for (const auto& request : requests) succeed(request);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  EXPECT_EQ(lines(), 0);
  subscriptions.renew();
  EXPECT_EQ(sent().size(), 4U);
}

TEST_F(SubscriptionsTest, AreRetriedWithBackoffAndLoggedOnce) {
  subscriptions.renew();
  auto requests = sent();
  auto request = requests.back();
  requests.pop_back();
  for (const auto& other : requests) succeed(other);
  Duration last{};
  for (int i = 0; i < 20; ++i) {
    refuse(request);
    const auto due = subscriptions.next_deadline();
    ASSERT_NE(due, kNever);
    last = due - now;
    EXPECT_LE(last, Subscriptions::kBackoff.last * 5 / 4);
    subscriptions.on_time(due - Duration(1));
    EXPECT_TRUE(sent().empty());
    now = due;
    subscriptions.on_time(now);
    requests = sent();
    ASSERT_EQ(requests.size(), 1U);
    request = requests[0];
    EXPECT_EQ(inform_info(request).trap_number, 67);
  }
  EXPECT_GT(last, Subscriptions::kBackoff.last / 2);
  EXPECT_EQ(lines(), 1);
  EXPECT_THAT(logged.str(), ::testing::HasSubstr("no resources"));
  succeed(request);
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  subscriptions.renew();
  refuse(sent().back());
  EXPECT_EQ(lines(), 2) << "another series of failures";
  EXPECT_LE(subscriptions.next_deadline() - now, Subscriptions::kBackoff.first * 5 / 4);
}

TEST_F(SubscriptionsTest, AreSuspendedWithoutAnSa) {
  subscriptions.renew();
  const auto requests = sent();
  refuse(requests[0]);
  subscriptions.suspend();
  EXPECT_EQ(subscriptions.next_deadline(), kNever);
  succeed(requests[1]);
  EXPECT_TRUE(subscriptions.unsubscriptions().empty());
}

TEST_F(SubscriptionsTest, AreEndedByUnsubscribing) {
  subscriptions.renew();
  const auto unsubscriptions = subscriptions.unsubscriptions();
  ASSERT_EQ(unsubscriptions.size(), 4U);
  for (const auto& query : unsubscriptions) {
    EXPECT_FALSE(query.record.subscribe);
    EXPECT_EQ(query.record.qpn, Qpn(1));
  }
}

}  // namespace
}  // namespace ipoib::sa
