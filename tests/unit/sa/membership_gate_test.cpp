#include "sa/membership_gate.hpp"

#include "tests/unit/sa/sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;

class FakeGate final : public MembershipGate {
 public:
  [[nodiscard]] Action before(const wire::SaRequest& request) override {
    ++asked;
    return std::holds_alternative<wire::PathQuery>(request.query) ? Action::send : action;
  }
  Action action = Action::postpone;
  unsigned asked = 0;
};

class MembershipGateTest : public SaClientTest {
 protected:
  MembershipGateTest() { make_gated(); }

  void make_gated() {
    gated = std::make_unique<SaClient>(config, port, log, 1, random_from(1), &gate);
    gated->set_sm(kSm, now);
  }
  void join(std::uint64_t id) { request(id, wire::join_query(kGroup, kPort, kDefaultPKey, kFull)); }
  void leave(std::uint64_t id) { request(id, wire::leave_query(kGroup, kPort, kFull)); }
  void request(std::uint64_t id, const wire::SaQuery& query) {
    gated->request({wire::SaRequestId(id), query}, now);
  }
  void reach_deadline() {
    ASSERT_NE(gated->next_deadline(), kNever);
    now = gated->next_deadline();
    gated->on_time(now);
  }

  static constexpr auto kFull = McMemberRecord::kFullMember;
  FakeGate gate;
  std::unique_ptr<SaClient> gated;
};

TEST_F(MembershipGateTest, ALeaveThatIsLeftOutEndsWithItsRecord) {
  gate.action = MembershipGate::Action::leave_out;
  leave(1);
  ASSERT_EQ(gated->responses().size(), 1U);
  EXPECT_EQ(std::get<McMemberRecord>(gated->responses()[0].result).mgid, kGroup);
  EXPECT_TRUE(port.sent.empty());
  EXPECT_EQ(gated->pending(), 0U);
  EXPECT_EQ(gated->counters().requests, 0U);
}

TEST_F(MembershipGateTest, APostponedRequestIsSentAsSoonAsTheGatePermitsIt) {
  join(1);
  reach_deadline();
  EXPECT_EQ(gate.asked, 2U);
  EXPECT_TRUE(port.sent.empty());
  gate.action = MembershipGate::Action::send;
  reach_deadline();
  EXPECT_EQ(port.sent.size(), 1U);
  EXPECT_EQ(gated->counters().requests, 1U);
}

TEST_F(MembershipGateTest, APostponedRequestTakesNoRoomOfOthers) {
  config.window = 1;
  config.max_waiting = 0;
  config.max_postponed = 2;
  make_gated();
  join(1);
  join(2);
  request(3, wire::path_query(kPort, kPeer, kDefaultPKey));
  EXPECT_TRUE(gated->responses().empty());
  EXPECT_EQ(port.sent.size(), 1U);
  join(4);
  ASSERT_EQ(gated->responses().size(), 1U) << "two are postponed";
  EXPECT_EQ(gated->responses()[0].id, wire::SaRequestId(4));
  gate.action = MembershipGate::Action::send;
  reach_deadline();
  EXPECT_EQ(gated->responses().size(), 3U) << "the path takes the only room";
  EXPECT_EQ(gated->counters().overloaded, 2U);
}

TEST_F(MembershipGateTest, LeavesTakeNoRoomOfPostponedJoins) {
  config.max_postponed = 1;
  make_gated();
  gate.action = MembershipGate::Action::send;
  leave(1);
  request(2, wire::path_query(kPort, kPeer, kDefaultPKey));
  gate.action = MembershipGate::Action::postpone;
  request(3, wire::join_query(kGroup, kPeer, kDefaultPKey, kFull));
  EXPECT_TRUE(gated->responses().empty());
}

TEST_F(MembershipGateTest, AJoinThatIsPostponedForTooLongFails) {
  config.longest_postponement = 2 * config.postpone_pause;
  make_gated();
  join(1);
  reach_deadline();
  EXPECT_TRUE(gated->responses().empty());
  reach_deadline();
  ASSERT_EQ(gated->responses().size(), 1U);
  EXPECT_EQ(std::get<wire::SaFailure>(gated->responses()[0].result).kind, Kind::local);
}

TEST_F(MembershipGateTest, AChangeOfTheSubnetManagerSendsNoPostponedRequest) {
  join(1);
  gated->set_sm(std::nullopt, now);
  gated->set_sm(kSm, now);
  EXPECT_TRUE(port.sent.empty());
}

TEST_F(MembershipGateTest, ADroppedRequestGetsNoResponse) {
  join(1);
  request(2, wire::path_query(kPort, kPeer, kDefaultPKey));
  gated->drop_postponed();
  EXPECT_EQ(gated->pending(), 1U) << "the path";
  EXPECT_TRUE(gated->responses().empty());
  gate.action = MembershipGate::Action::send;
  leave(3);
  EXPECT_EQ(port.sent.size(), 2U) << "nothing holds the leave";
}

}  // namespace
}  // namespace ipoib::sa
