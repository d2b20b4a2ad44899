// Joins and leaves of one membership: the SA gets them in the order in which they were requested,
// even if MADs are lost or late.
#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

class SaClientOrderTest : public SaClientTest {
 protected:
  void ask_leave(std::uint64_t id, std::uint8_t state = McMemberRecord::kFullMember) {
    client->request({wire::SaRequestId(id), wire::leave_query(kGroup, kPort, state)}, now);
  }
  /// The method of each MAD that was sent.
  std::vector<std::uint8_t> methods() const {
    std::vector<std::uint8_t> found;
    for (const auto& sent : port.sent) found.push_back(wire::MadHeader::parse(sent.mad)->method);
    return found;
  }
  void respond_to(const MemoryMadPort::Sent& request) {
    port.respond(request, static_cast<std::uint16_t>(SaStatus::ok), group());
    client->on_readable(now);
  }
  /// The ids of the responses, in their order.
  std::vector<std::uint64_t> responses() {
    std::vector<std::uint64_t> ids;
    for (const auto& response : std::exchange(client->responses(), {})) {
      ids.push_back(response.id.value());
    }
    return ids;
  }

  static constexpr auto kJoin = wire::method::kSet;
  static constexpr auto kLeave = wire::method::kDelete;
  using Methods = std::vector<std::uint8_t>;
  using Ids = std::vector<std::uint64_t>;
};

TEST_F(SaClientOrderTest, AJoinWaitsForTheResponseToALeave) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  EXPECT_EQ(methods(), (Methods{kLeave}));
  respond_to(port.sent[0]);
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
  EXPECT_EQ(responses(), (Ids{1}));
  respond_to(port.sent[1]);
  EXPECT_EQ(responses(), (Ids{2}));
  EXPECT_EQ(client->pending(), 0U);
}

TEST_F(SaClientOrderTest, ALostLeaveIsNotRepeatedAfterAJoin) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  time_out();
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
  EXPECT_EQ(responses(), (Ids{1}));
  respond_to(port.sent[1]);
  EXPECT_EQ(client->pending(), 0U);
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(SaClientOrderTest, ALeaveThatPausesIsNotRepeatedAfterAJoin) {
  client->set_sm(kSm, now);
  ask_leave(1);
  time_out();
  ask_join(2);
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin})) << "at once";
  respond_to(port.sent[1]);
  EXPECT_EQ(responses(), (Ids{1, 2}));
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(SaClientOrderTest, ALostJoinIsNotRepeatedAfterALeave) {
  client->set_sm(kSm, now);
  ask_join(1);
  ask_leave(2);
  EXPECT_EQ(methods(), (Methods{kJoin}));
  time_out();
  EXPECT_EQ(methods(), (Methods{kJoin, kLeave}));
  EXPECT_EQ(failure().kind, Kind::local);
}

TEST_F(SaClientOrderTest, ABusySaIsNotAskedAgainForASupersededRequest) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  respond(SaStatus::busy, {});
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
}

TEST_F(SaClientOrderTest, TheLastOfSeveralHeldRequestsCounts) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  ask_leave(3);
  EXPECT_EQ(responses(), (Ids{2})) << "nobody wants to join any more";
  EXPECT_EQ(methods(), (Methods{kLeave, kLeave}));
  ask_join(4);
  ask_join(5);
  respond_to(port.sent[0]);
  EXPECT_EQ(methods(), (Methods{kLeave, kLeave})) << "the other leave is in flight";
  respond_to(port.sent[1]);
  EXPECT_EQ(methods(), (Methods{kLeave, kLeave, kJoin, kJoin}));
}

TEST_F(SaClientOrderTest, AnUnsentRequestIsNeverSentAfterItsOpposite) {
  ask_leave(1);
  ask_join(2);
  EXPECT_EQ(responses(), (Ids{1}));
  client->set_sm(kSm, now);
  EXPECT_EQ(methods(), (Methods{kJoin}));
}

TEST_F(SaClientOrderTest, ANewSmGetsOnlyTheLastRequest) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  client->set_sm(kOtherSm, now);
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
  EXPECT_EQ(port.sent[1].to, kOtherSm);
}

TEST_F(SaClientOrderTest, OtherMembershipsDoNotWait) {
  client->set_sm(kSm, now);
  ask_leave(1, McMemberRecord::kSendOnlyNonMember);
  ask_join(2);
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
  client->request(
      {wire::SaRequestId(3), wire::leave_query(kGroup, kPeer, McMemberRecord::kFullMember)}, now);
  EXPECT_EQ(methods().size(), 3U) << "that of another port";
  const Gid other = *Gid::parse("ff12:401b:ffff::1");
  client->request(
      {wire::SaRequestId(4), wire::leave_query(other, kPort, McMemberRecord::kFullMember)}, now);
  EXPECT_EQ(methods().size(), 4U) << "that of another group";
}

TEST_F(SaClientOrderTest, RequestsOfOneKindDoNotWait) {
  client->set_sm(kSm, now);
  ask_join(1);
  ask_join(2);
  EXPECT_EQ(methods(), (Methods{kJoin, kJoin}));
}

TEST_F(SaClientOrderTest, AHeldRequestIsSentAfterARequestThatNobodyReportsAsTimedOut) {
  client->set_sm(kSm, now);
  ask_leave(1);
  ask_join(2);
  advance();  // the port should have reported the time-out
  EXPECT_EQ(methods(), (Methods{kLeave, kJoin}));
  EXPECT_EQ(responses(), (Ids{1}));
}

}  // namespace
}  // namespace ipoib::sa
