// A test for each row of the table in sa_client.cpp, and for each bound.
#include "sa/sa_client.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <limits>
#include <memory>

#include "ipoib/log.hpp"
#include "memory_mad_port.hpp"

namespace ipoib::sa {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaStatus;

const Gid kPort = *Gid::parse("fe80::10:1");
const Gid kPeer = *Gid::parse("fe80::10:3");
const Gid kGroup = *Gid::parse("ff12:401b:ffff::ffff:ffff");
const MadDestination kSm{Lid(1), ServiceLevel(0), 0};
const MadDestination kOtherSm{Lid(7), ServiceLevel(2), 0};

class SaClientTest : public testing::Test {
 protected:
  SaClientTest() { make_client(); }

  void make_client() { client = std::make_unique<SaClient>(config, port, log, 42); }
  void ask_path(std::uint64_t id, const Gid& peer = kPeer) {
    client->ask(QueryId(id), path_query(kPort, peer, kDefaultPKey), now);
  }
  void ask_join(std::uint64_t id) {
    client->ask(QueryId(id), join_query(kGroup, kPort, kDefaultPKey, McMemberRecord::kFullMember),
                now);
  }
  /// Lets time come to the next deadline.
  void advance() {
    ASSERT_NE(client->next_deadline(), kNever);
    now = client->next_deadline();
    client->on_time(now);
  }
  void respond(SaStatus status, const PathRecord& record) {
    port.respond(port.sent.back(), static_cast<std::uint16_t>(status), record);
    client->on_readable(now);
  }
  void time_out() {
    port.time_out(port.sent.back());
    client->on_readable(now);
  }
  PathRecord path(const Gid& peer = kPeer) const {
    PathRecord record = path_query(kPort, peer, kDefaultPKey).record;
    record.dlid = Lid(4);
    record.slid = Lid(3);
    record.mtu = 4;
    record.rate = 3;
    return record;
  }
  McMemberRecord group() const {
    McMemberRecord record;
    record.mgid = kGroup;
    record.port_gid = kPort;
    record.pkey = kDefaultPKey;
    record.mlid = Lid(0xc000);
    record.qkey = QKey(0x0b1b);
    record.mtu = 4;
    record.join_state = McMemberRecord::kFullMember;
    return record;
  }
  /// Takes the only answer, which is a failure.
  SaFailure failure() {
    EXPECT_EQ(client->answers().size(), 1U);
    const auto answer = client->answers().at(0);
    client->answers().clear();
    return std::get<SaFailure>(answer.result);
  }

  Config config;
  MemoryMadPort port;
  Logger log{"sa", std::make_shared<spdlog::sinks::null_sink_st>()};
  TimePoint now{seconds(1000)};
  std::unique_ptr<SaClient> client;
};

TEST_F(SaClientTest, AnswersAPathQueryWithItsRecord) {
  client->set_sm(kSm, now);
  ask_path(7);
  ASSERT_EQ(port.sent.size(), 1U);
  EXPECT_EQ(port.sent[0].to, kSm);
  EXPECT_EQ(port.sent[0].timeout, config.path.first_timeout);
  respond(SaStatus::ok, path());

  ASSERT_EQ(client->answers().size(), 1U);
  EXPECT_EQ(client->answers()[0].id, QueryId(7));
  EXPECT_EQ(std::get<PathRecord>(client->answers()[0].result), path());
  EXPECT_EQ(client->counters().answers, 1U);
  EXPECT_EQ(client->pending(), 0U);
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(SaClientTest, AnswersAJoinAndALeaveWithTheGroup) {
  client->set_sm(kSm, now);
  ask_join(1);
  client->ask(QueryId(2), leave_query(kGroup, kPort, McMemberRecord::kFullMember), now);
  ASSERT_EQ(port.sent.size(), 2U);
  for (const auto& request : port.sent) port.respond(request, 0, group());
  client->on_readable(now);
  ASSERT_EQ(client->answers().size(), 2U);
  EXPECT_EQ(std::get<McMemberRecord>(client->answers()[0].result), group());
  EXPECT_EQ(client->answers()[1].id, QueryId(2));
  EXPECT_EQ(std::get<McMemberRecord>(client->answers()[1].result), group());
}

TEST_F(SaClientTest, GivesARefusalAsTheAnswer) {
  client->set_sm(kSm, now);
  ask_path(1);
  respond(SaStatus::no_records, {});
  const auto refused = failure();
  EXPECT_EQ(refused.kind, FailureKind::status);
  EXPECT_EQ(refused.status, SaStatus::no_records);
  EXPECT_EQ(client->counters().refused_by_status, 1U);
  EXPECT_EQ(port.sent.size(), 1U) << "a refusal is not retried";
}

TEST_F(SaClientTest, RefusesTheRecordOfAnotherPath) {
  client->set_sm(kSm, now);
  PathRecord broken[] = {path(), path(), path(), path(), path()};
  broken[0].dgid = kPort;
  broken[1].sgid = kPeer;
  broken[2].pkey = PKey(0x8012);
  broken[3].dlid = Lid(0xc000);
  broken[4].mtu = 9;
  for (const auto& record : broken) {
    ask_path(1);
    respond(SaStatus::ok, record);
    EXPECT_EQ(failure().kind, FailureKind::malformed_answer);
  }
  EXPECT_EQ(client->counters().malformed_answers, std::size(broken));
  EXPECT_EQ(client->counters().answers, 0U);
}

TEST_F(SaClientTest, RefusesTheRecordOfAnotherGroup) {
  client->set_sm(kSm, now);
  McMemberRecord broken[] = {group(), group(), group(), group()};
  broken[0].mgid = *Gid::parse("ff12:401b:ffff::1");
  broken[1].mlid = Lid(4);
  broken[2].pkey = PKey(0x8012);
  broken[3].mtu = 0;
  for (const auto& record : broken) {
    ask_join(1);
    port.respond(port.sent.back(), 0, record);
    client->on_readable(now);
    EXPECT_EQ(failure().kind, FailureKind::malformed_answer);
  }
}

TEST_F(SaClientTest, RefusesATruncatedRecord) {
  client->set_sm(kSm, now);
  ask_path(1);
  port.respond(port.sent[0], 0, path());
  port.inbox[0].bytes.resize(wire::kSaHeaderSize + PathRecord::kSize - 1);
  client->on_readable(now);
  EXPECT_EQ(failure().kind, FailureKind::malformed_answer);
}

TEST_F(SaClientTest, AcceptsALimitedMembersPathOfTheSamePartition) {
  client->set_sm(kSm, now);
  ask_path(1);
  auto record = path();
  record.pkey = PKey(0x7fff);
  respond(SaStatus::ok, record);
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, DropsStrangers) {
  client->set_sm(kSm, now);
  ask_path(1);
  const auto strange = [&](auto change) {
    port.respond(port.sent[0], 0, path());
    auto& bytes = port.inbox.back().bytes;
    auto header = *wire::SaHeader::parse(bytes);
    change(header);
    header.emit(bytes);
  };
  strange([](auto& header) { header.mad.transaction_id ^= 1; });
  strange([](auto& header) { header.mad.method = wire::method::kGetTableResp; });
  strange([](auto& header) { header.mad.method = wire::method::kGet; });
  strange([](auto& header) { header.mad.attribute_id = wire::attribute::kMcMemberRecord; });
  strange([](auto& header) { header.mad.management_class = wire::mgmt_class::kPerf; });
  strange([](auto& header) { header.mad.class_version = 1; });
  port.inbox.push_back({true, {}});
  client->on_readable(now);
  EXPECT_EQ(client->counters().strangers, 7U);
  EXPECT_TRUE(client->answers().empty());

  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U) << "and the right answer is still taken";
  port.respond(port.sent[0], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().strangers, 8U) << "but only once";
}

TEST_F(SaClientTest, AsksAgainAfterATimeoutWithLongerTimeouts) {
  client->set_sm(kSm, now);
  ask_path(1);
  time_out();
  EXPECT_EQ(port.sent.size(), 1U) << "first a pause";
  const Duration pause = client->next_deadline() - now;
  EXPECT_GE(pause, config.path.first_pause / 2);
  EXPECT_LE(pause, config.path.first_pause * 3 / 2);
  advance();
  ASSERT_EQ(port.sent.size(), 2U);
  EXPECT_EQ(port.sent[1].timeout, 2 * config.path.first_timeout);
  EXPECT_EQ(port.sent[1].mad, port.sent[0].mad) << "the same transaction (IBA 13.4.6.4)";
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
  EXPECT_EQ(client->counters().retries, 1U);
}

TEST_F(SaClientTest, TimeoutsAndPausesAreBounded) {
  config.path = {.attempts = 40,
                 .first_timeout = milliseconds(100),
                 .last_timeout = milliseconds(700),
                 .first_pause = milliseconds(10),
                 .last_pause = milliseconds(40)};
  make_client();
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    time_out();
    EXPECT_LE(client->next_deadline() - now, config.path.last_pause * 3 / 2);
    advance();
    EXPECT_LE(port.sent.back().timeout, config.path.last_timeout);
  }
  EXPECT_EQ(port.sent.size(), 40U);
}

TEST_F(SaClientTest, FailsAfterTheLastAttempt) {
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    time_out();
    EXPECT_TRUE(client->answers().empty());
    advance();
  }
  time_out();
  EXPECT_EQ(failure().kind, FailureKind::timeout);
  EXPECT_EQ(port.sent.size(), config.path.attempts);
  EXPECT_EQ(client->counters().timeouts, config.path.attempts);
  EXPECT_EQ(client->pending(), 0U);
}

TEST_F(SaClientTest, MembershipHasTimeoutsOfItsOwn) {
  client->set_sm(kSm, now);
  ask_join(1);
  EXPECT_EQ(port.sent[0].timeout, config.membership.first_timeout);
}

TEST_F(SaClientTest, AsksAgainWhenBusy) {
  client->set_sm(kSm, now);
  ask_path(1);
  respond(SaStatus::busy, {});
  EXPECT_TRUE(client->answers().empty());
  EXPECT_EQ(client->counters().busy, 1U);
  advance();
  EXPECT_EQ(port.sent.size(), 2U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, FailsWithTheStatusWhenBusyToTheEnd) {
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    respond(SaStatus::busy, {});
    advance();
  }
  respond(SaStatus::busy, {});
  const auto refused = failure();
  EXPECT_EQ(refused.kind, FailureKind::status);
  EXPECT_EQ(refused.status, SaStatus::busy);
}

TEST_F(SaClientTest, OutlivesAPortThatReportsNoTimeouts) {
  client->set_sm(kSm, now);
  ask_path(1);
  EXPECT_EQ(client->next_deadline() - now, config.path.first_timeout + config.port_grace);
  advance();
  EXPECT_EQ(client->counters().timeouts, 1U);
  advance();
  ASSERT_EQ(port.sent.size(), 2U);
  // The report that comes after all does not end the second attempt.
  port.time_out(port.sent[0]);
  client->on_readable(now);
  EXPECT_EQ(client->counters().strangers, 1U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, AsksAgainWhenThePortRefuses) {
  client->set_sm(kSm, now);
  port.refusing = true;
  ask_path(1);
  EXPECT_EQ(client->counters().send_errors, 1U);
  port.refusing = false;
  advance();
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, FailsWithTheErrorOfAPortThatRefusesToTheEnd) {
  client->set_sm(kSm, now);
  port.refusing = true;
  ask_path(1);
  while (client->answers().empty()) advance();
  const auto refused = failure();
  EXPECT_EQ(refused.kind, FailureKind::send_failed);
  EXPECT_EQ(refused.detail, "the send queue is full");
  EXPECT_EQ(client->counters().send_errors, config.path.attempts);
}

TEST_F(SaClientTest, WaitsForASubnetManager) {
  ask_path(1);
  EXPECT_TRUE(port.sent.empty());
  now += config.patience_without_sm / 2;
  client->set_sm(kSm, now);
  ASSERT_EQ(port.sent.size(), 1U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, LosesPatienceWithoutASubnetManager) {
  ask_path(1);
  EXPECT_EQ(client->next_deadline(), now + config.patience_without_sm);
  advance();
  EXPECT_EQ(failure().kind, FailureKind::no_sm);
  EXPECT_EQ(client->counters().without_sm, 1U);
}

TEST_F(SaClientTest, WithoutPatienceFailsAtOnceWithoutASubnetManager) {
  config.patience_without_sm = {};
  make_client();
  ask_path(1);
  EXPECT_EQ(failure().kind, FailureKind::no_sm);
}

TEST_F(SaClientTest, AsksANewSubnetManagerAnew) {
  client->set_sm(kSm, now);
  ask_path(1);
  time_out();
  advance();
  client->set_sm(kOtherSm, now);
  ASSERT_EQ(port.sent.size(), 3U);
  EXPECT_EQ(port.sent[2].to, kOtherSm);
  EXPECT_EQ(port.sent[2].timeout, config.path.first_timeout);

  port.respond(port.sent[1], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().strangers, 1U) << "an answer of the old one comes too late";
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().answers, 1U);
}

TEST_F(SaClientTest, TheSameSubnetManagerAgainIsNoChange) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->set_sm(kSm, now);
  EXPECT_EQ(port.sent.size(), 1U);
}

TEST_F(SaClientTest, KeepsQuestionsWhileTheSubnetManagerIsAway) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->set_sm(std::nullopt, now);
  EXPECT_EQ(client->next_deadline(), now + config.patience_without_sm);
  client->set_sm(kOtherSm, now);
  EXPECT_EQ(port.sent.size(), 2U);
  EXPECT_EQ(client->pending(), 1U);
}

TEST_F(SaClientTest, SendsNoMoreThanTheWindow) {
  config.window = 2;
  make_client();
  client->set_sm(kSm, now);
  for (std::uint64_t id = 0; id < 4; ++id) ask_path(id, Gid(Gid::kLinkLocalPrefix, Guid(id)));
  ASSERT_EQ(port.sent.size(), 2U);
  port.respond(port.sent[1], 0, path(Gid(Gid::kLinkLocalPrefix, Guid(1))));
  client->on_readable(now);
  ASSERT_EQ(port.sent.size(), 3U) << "an answer makes room for the next";
  EXPECT_EQ(client->answers().at(0).id, QueryId(1));
  port.time_out(port.sent[0]);
  client->on_readable(now);
  EXPECT_EQ(port.sent.size(), 4U) << "a pause makes room as well";
  advance();
  EXPECT_EQ(port.sent.size(), 4U) << "and after it the window counts again";
}

TEST_F(SaClientTest, RefusesMoreQuestionsThanItsBound) {
  config.window = 2;
  config.max_waiting = 3;
  make_client();
  client->set_sm(kSm, now);
  for (std::uint64_t id = 0; id < 5; ++id) ask_path(id);
  EXPECT_TRUE(client->answers().empty());
  ask_path(5);
  EXPECT_EQ(client->answers().at(0).id, QueryId(5));
  EXPECT_EQ(failure().kind, FailureKind::overloaded);
  EXPECT_EQ(client->counters().overloaded, 1U);
  EXPECT_EQ(client->pending(), 5U);
}

TEST_F(SaClientTest, ForgetsWhatIsCancelledInAnyState) {
  config.window = 2;
  make_client();
  client->set_sm(kSm, now);
  ask_path(1);
  time_out();   // backing off
  ask_path(1);  // in flight
  ask_path(2);  // in flight
  ask_path(1);  // waiting
  ASSERT_EQ(port.sent.size(), 3U);
  client->cancel(QueryId(1), now);
  EXPECT_EQ(client->pending(), 1U);
  EXPECT_EQ(client->counters().cancelled, 3U);

  port.respond(port.sent[1], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().strangers, 1U);
  EXPECT_TRUE(client->answers().empty());
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->answers().at(0).id, QueryId(2));
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(SaClientTest, CancellingMakesRoomForTheNext) {
  config.window = 1;
  make_client();
  client->set_sm(kSm, now);
  ask_path(1);
  ask_path(2);
  client->cancel(QueryId(1), now);
  EXPECT_EQ(port.sent.size(), 2U);
}

TEST_F(SaClientTest, OnTimeIsHarmlessBeforeTheDeadline) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->on_time(now);
  client->on_time(client->next_deadline() - Duration(1));
  EXPECT_EQ(client->counters().timeouts, 0U);
  EXPECT_EQ(port.sent.size(), 1U);
}

TEST_F(SaClientTest, TransactionIdsDifferAndComeFromTheSeed) {
  client->set_sm(kSm, now);
  ask_path(1);
  ask_path(2);
  const auto first = port.sent[0].header().mad.transaction_id;
  EXPECT_NE(first, port.sent[1].header().mad.transaction_id);
  EXPECT_LE(first, std::numeric_limits<std::uint32_t>::max());
  port.sent.clear();
  SaClient same(config, port, log, 42);
  same.set_sm(kSm, now);
  same.ask(QueryId(1), path_query(kPort, kPeer, kDefaultPKey), now);
  EXPECT_EQ(port.sent[0].header().mad.transaction_id, first);
}

}  // namespace
}  // namespace ipoib::sa
