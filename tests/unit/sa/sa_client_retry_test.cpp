// Rows of the table in sa_client.cpp without a final response, and the limits.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <set>
#include <sstream>
#include <vector>

#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;

TEST_F(SaClientTest, RetriesAfterATimeoutWithALongerTimeout) {
  client->set_sm(kSm, now);
  ask_path(1);
  time_out();
  EXPECT_EQ(port.sent.size(), 1U) << "pauses first";
  const Duration pause = client->next_deadline() - now;
  EXPECT_GE(pause, config.path.pause.first / 2);
  EXPECT_LE(pause, config.path.pause.first * 3 / 2);
  advance();
  ASSERT_EQ(port.sent.size(), 2U);
  EXPECT_EQ(port.sent[1].timeout, 2 * config.path.timeout.first);
  EXPECT_EQ(port.sent[1].mad, port.sent[0].mad) << "the same transaction (IBA 13.4.6.4)";
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
  EXPECT_EQ(client->counters().retries, 1U);
}

TEST_F(SaClientTest, HasTheTimesOfTheDocuments) {
  const Config defaults;
  const auto times = [](const RetryPolicy& policy) {
    return std::vector{policy.timeout.first, policy.timeout.last, policy.pause.first,
                       policy.pause.last, policy.without_sm};
  };
  EXPECT_EQ(times(defaults.path), (std::vector<Duration>{250ms, 2s, 100ms, 1s, 5s}));
  EXPECT_EQ(times(defaults.membership), (std::vector<Duration>{500ms, 4s, 100ms, 1s, 5s}));
  EXPECT_EQ(times(defaults.tables), (std::vector<Duration>{1s, 1s, 100ms, 1s, 0s}));
  EXPECT_EQ(defaults.postpone_pause, 20ms);
  EXPECT_EQ(defaults.longest_postponement, 20s);
  EXPECT_EQ(defaults.foreign_log_pause, 1min);
  EXPECT_EQ(defaults.port_grace, 1s);
}

TEST_F(SaClientTest, PausesDiffer) {
  std::set<Duration> pauses;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    make_client(seed);
    client->set_sm(kSm, now);
    ask_path(1);
    respond(SaStatus::busy, path());
    pauses.insert(client->next_deadline() - now);
  }
  EXPECT_GT(pauses.size(), 1U) << "the hosts of a subnet do not retry in step";
}

TEST_F(SaClientTest, ResponseDuringAPauseIsUnmatched) {
  client->set_sm(kSm, now);
  ask_path(1);
  respond(SaStatus::busy, path());
  respond(SaStatus::ok, path());
  EXPECT_TRUE(client->responses().empty());
  EXPECT_EQ(client->counters().unmatched_mads, 1U);
}

TEST_F(SaClientTest, TimeoutsAndPausesAreBounded) {
  config.path = {.attempts = 40,
                 .timeout = {milliseconds(100), milliseconds(700)},
                 .pause = {milliseconds(10), milliseconds(40)}};
  make_client();
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    time_out();
    EXPECT_LE(client->next_deadline() - now, config.path.pause.last * 3 / 2);
    advance();
    EXPECT_LE(port.sent.back().timeout, config.path.timeout.last);
  }
  EXPECT_EQ(port.sent.size(), 40U);
}

TEST_F(SaClientTest, FailsAfterTheLastAttempt) {
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    time_out();
    EXPECT_TRUE(client->responses().empty());
    advance();
  }
  time_out();
  EXPECT_EQ(failure().kind, Kind::timeout);
  EXPECT_EQ(port.sent.size(), config.path.attempts);
  EXPECT_EQ(client->counters().timeouts, config.path.attempts);
  EXPECT_EQ(client->pending(), 0U);
}

TEST_F(SaClientTest, MembershipHasItsOwnTimeouts) {
  client->set_sm(kSm, now);
  ask_join(1);
  EXPECT_EQ(port.sent[0].timeout, config.membership.timeout.first);
}

TEST_F(SaClientTest, RetriesWhenBusy) {
  client->set_sm(kSm, now);
  ask_path(1);
  respond(SaStatus::busy, {});
  EXPECT_TRUE(client->responses().empty());
  EXPECT_EQ(client->counters().busy, 1U);
  advance();
  EXPECT_EQ(port.sent.size(), 2U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientTest, FailsWithTheStatusWhenAlwaysBusy) {
  client->set_sm(kSm, now);
  ask_path(1);
  for (unsigned attempt = 1; attempt < config.path.attempts; ++attempt) {
    respond(SaStatus::busy, {});
    advance();
  }
  respond(SaStatus::busy, {});
  const auto refused = failure();
  EXPECT_EQ(refused.kind, Kind::status);
  EXPECT_EQ(refused.status, SaStatus::busy);
}

TEST_F(SaClientTest, TimesOutWithoutAReportFromThePort) {
  client->set_sm(kSm, now);
  ask_path(1);
  EXPECT_EQ(client->next_deadline() - now, config.path.timeout.first + config.port_grace);
  advance();
  EXPECT_EQ(client->counters().timeouts, 1U);
  advance();
  ASSERT_EQ(port.sent.size(), 2U);
  // A late report does not end the second attempt.
  port.time_out(port.sent[0]);
  client->on_readable(now);
  EXPECT_EQ(client->counters().unmatched_mads, 1U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientTest, RetriesWhenThePortRefusesToSend) {
  client->set_sm(kSm, now);
  port.refusing = true;
  ask_path(1);
  EXPECT_EQ(client->counters().send_errors, 1U);
  port.refusing = false;
  advance();
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientTest, FailsWithTheErrorOfAPortThatAlwaysRefuses) {
  client->set_sm(kSm, now);
  port.refusing = true;
  ask_path(1);
  while (client->responses().empty()) advance();
  const auto refused = failure();
  EXPECT_EQ(refused.kind, Kind::send_failed);
  EXPECT_EQ(refused.detail, "the send queue is full");
  EXPECT_EQ(client->counters().send_errors, config.path.attempts);
}

TEST_F(SaClientTest, WaitsForASubnetManager) {
  ask_path(1);
  EXPECT_TRUE(port.sent.empty());
  now += config.path.without_sm / 2;
  client->set_sm(kSm, now);
  ASSERT_EQ(port.sent.size(), 1U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientTest, FailsAfterAWhileWithoutASubnetManager) {
  ask_path(1);
  EXPECT_EQ(client->next_deadline(), now + config.path.without_sm);
  advance();
  EXPECT_EQ(failure().kind, Kind::no_sm);
  EXPECT_EQ(client->counters().without_sm, 1U);
}

TEST_F(SaClientTest, MayFailAtOnceWithoutASubnetManager) {
  config.path.without_sm = {};
  make_client();
  ask_path(1);
  EXPECT_EQ(failure().kind, Kind::no_sm);
}

TEST_F(SaClientTest, SendsRequestsAgainToANewSubnetManager) {
  client->set_sm(kSm, now);
  ask_path(1);
  time_out();
  advance();
  client->set_sm(kOtherSm, now);
  ASSERT_EQ(port.sent.size(), 3U);
  EXPECT_EQ(port.sent[2].to, kOtherSm);
  EXPECT_EQ(port.sent[2].timeout, config.path.timeout.first);

  port.respond(port.sent[1], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().unmatched_mads, 1U) << "late response of the old SM";
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientTest, SameSubnetManagerChangesNothing) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->set_sm(kSm, now);
  EXPECT_EQ(port.sent.size(), 1U);
}

TEST_F(SaClientTest, KeepsRequestsWhileThereIsNoSubnetManager) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->set_sm(std::nullopt, now);
  EXPECT_EQ(client->next_deadline(), now + config.path.without_sm);
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
  ASSERT_EQ(port.sent.size(), 3U) << "a response makes room for the next request";
  EXPECT_EQ(client->responses().at(0).id, wire::SaRequestId(1));
  port.time_out(port.sent[0]);
  client->on_readable(now);
  EXPECT_EQ(port.sent.size(), 4U) << "a pause makes room as well";
  advance();
  EXPECT_EQ(port.sent.size(), 4U) << "after the pause the window applies again";
}

TEST_F(SaClientTest, RefusesRequestsBeyondTheLimit) {
  config.window = 2;
  config.max_waiting = 3;
  make_client();
  client->set_sm(kSm, now);
  for (std::uint64_t id = 0; id < 5; ++id) ask_path(id);
  EXPECT_TRUE(client->responses().empty());
  ask_path(5);
  EXPECT_EQ(client->responses().at(0).id, wire::SaRequestId(5));
  EXPECT_EQ(failure().kind, Kind::overloaded);
  EXPECT_EQ(client->counters().overloaded, 1U);
  EXPECT_EQ(client->pending(), 5U);
}

TEST_F(SaClientTest, RFC4391_12_FailedLeavesAreLoggedButNotEachOfMany) {
  const auto lines = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger logging("sa", lines);
  client = std::make_unique<SaClient>(config, port, logging, 42, random_from(42));
  client->set_sm(kSm, now);
  const auto leave = [&](SaStatus status) {
    client->request(
        {wire::SaRequestId(1), wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember)}, now);
    port.respond(port.sent.back(), static_cast<std::uint16_t>(status),
                 wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember).record);
    client->on_readable(now);
  };
  const auto warnings = [&] {
    std::vector<std::string> found;
    for (const auto& line : lines->last_raw()) {
      if (line.level == spdlog::level::warn)
        found.emplace_back(line.payload.data(), line.payload.size());
    }
    return found;
  };
  leave(SaStatus::request_denied);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(warnings()[0].find(kGroup.to_string()), std::string::npos);
  EXPECT_NE(warnings()[0].find(wire::name(SaStatus::request_denied)), std::string::npos);
  for (int i = 1; i < 100; ++i) leave(SaStatus::request_denied);
  EXPECT_EQ(warnings().size(), 7U) << "1, 2, 4, ... 64";
  EXPECT_NE(warnings().back().find("failure 64"), std::string::npos) << warnings().back();
  leave(SaStatus::ok);
  leave(SaStatus::request_denied);
  EXPECT_EQ(warnings().size(), 8U) << "the first one in a row";
  client.reset();  // before its log
}

/// As of each group of a partition that the subnet manager has taken from the port.
TEST_F(SaClientTest, LeavesOfGroupsThatTheSaHasForgottenAreOneLine) {
  const auto lines = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger logging("sa", lines);
  client = std::make_unique<SaClient>(config, port, logging, 42, random_from(42));
  client->set_sm(kSm, now);
  const auto query = wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember);
  for (int i = 0; i < 4; ++i) {
    client->request({wire::SaRequestId(1), query}, now);
    port.respond(port.sent.back(), static_cast<std::uint16_t>(SaStatus::request_invalid),
                 query.record);
    client->on_readable(now);
  }
  std::vector<std::string> told;
  for (const auto& line : lines->last_raw()) {
    const std::string text(line.payload.data(), line.payload.size());
    if (line.level >= spdlog::level::info && text.starts_with("leave of ")) told.push_back(text);
  }
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("its partition was removed"), std::string::npos) << told[0];
  client.reset();  // before its log
}

TEST_F(SaClientTest, CountsJoinsOfGroupsThatDoNotExistApart) {
  const auto join = [&](std::uint8_t state, SaStatus status) {
    const auto query = wire::join_query(kGroup, kPort, kDefaultPKey, state);
    client->request({wire::SaRequestId(1), query}, now);
    port.respond(port.sent.back(), static_cast<std::uint16_t>(status), query.record);
    client->on_readable(now);
  };
  client->set_sm(kSm, now);
  join(McMemberRecord::kSendOnlyNonMember, SaStatus::request_invalid);
  join(McMemberRecord::kSendOnlyNonMember, SaStatus::no_records);
  join(McMemberRecord::kFullMember, SaStatus::insufficient_components);
  EXPECT_EQ(client->counters().groups_missing, 3U);
  EXPECT_EQ(client->counters().refused_by_status, 0U);
  join(McMemberRecord::kFullMember, SaStatus::request_invalid);
  join(McMemberRecord::kSendOnlyNonMember, SaStatus::request_denied);
  EXPECT_EQ(client->counters().groups_missing, 3U);
  EXPECT_EQ(client->counters().refused_by_status, 2U);
}

TEST_F(SaClientTest, LeavesAreSentAlthoughTooManyRequestsWait) {
  config.window = 2;
  config.max_waiting = 3;
  config.max_leaves = 4;
  make_client();
  client->set_sm(kSm, now);
  for (std::uint64_t id = 0; id < 5; ++id) ask_path(id);
  const auto leave = [&](std::uint64_t id) {
    client->request(
        {wire::SaRequestId(id), wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember)},
        now);
  };
  for (std::uint64_t id = 10; id < 14; ++id) leave(id);
  EXPECT_TRUE(client->responses().empty());
  EXPECT_EQ(client->pending(), 9U);
  leave(14);
  EXPECT_EQ(client->counters().overloaded, 1U) << "their number is limited, too";
  ask_path(5);
  EXPECT_EQ(client->counters().overloaded, 2U) << "leaves make no room for others";
  // All of them are sent as responses come in.
  client->responses().clear();
  std::size_t leaves = 0;
  for (std::size_t i = 0; i < port.sent.size(); ++i) {
    leaves += port.sent[i].header().mad.method == wire::method::kDelete ? 1 : 0;
    port.respond(port.sent[i], static_cast<std::uint16_t>(SaStatus::request_invalid), path());
    client->on_readable(now);
  }
  EXPECT_EQ(leaves, 4U);
  EXPECT_EQ(client->pending(), 0U);
  // As many fit in again.
  for (std::uint64_t id = 20; id < 24; ++id) leave(id);
  EXPECT_EQ(client->counters().overloaded, 2U);
  for (std::uint64_t id = 0; id < 5; ++id) ask_path(id);
  EXPECT_EQ(client->counters().overloaded, 2U);
}

TEST_F(SaClientTest, LogsOnlyFailedLeaves) {
  std::ostringstream log_text;
  log.sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(log_text));
  client->set_sm(kSm, now);
  log_text.str("");
  ask_join(1);
  respond(SaStatus::insufficient_components, path());
  ask_path(2);
  respond(SaStatus::no_records, path());
  EXPECT_EQ(log_text.str(), "") << "the requester logs it";
  client->request({wire::SaRequestId(3), wire::leave_query(kGroup, kPort, 1)}, now);
  respond(SaStatus::request_invalid, path());
  EXPECT_NE(log_text.str().find("leave of " + kGroup.to_string()), std::string::npos);
  EXPECT_NE(log_text.str().find(wire::name(SaStatus::request_invalid)), std::string::npos);
}

TEST_F(SaClientTest, OnTimeIsHarmlessBeforeTheDeadline) {
  client->set_sm(kSm, now);
  ask_path(1);
  client->on_time(now);
  client->on_time(client->next_deadline() - Duration(1));
  EXPECT_EQ(client->counters().timeouts, 0U);
  EXPECT_EQ(port.sent.size(), 1U);
}

/// One known transaction id does not reveal the next.
TEST_F(SaClientTest, TransactionIdsAreRandom) {
  std::vector<std::uint32_t> drawn{7, 0xffffffff, 0xffffffff, 7};
  std::size_t next = 0;
  client = std::make_unique<SaClient>(config, port, log, 1, [&] { return drawn.at(next++); });
  client->set_sm(kSm, now);
  for (std::uint64_t id = 0; id < drawn.size(); ++id) ask_path(id);
  std::vector<std::uint64_t> used;
  for (const auto& sent : port.sent) used.push_back(sent.header().mad.transaction_id);
  EXPECT_EQ(used, (std::vector<std::uint64_t>{7, 0xffffffff, 0, 8})) << "and no two are alike";
}

TEST_F(SaClientTest, RequestsKeepTheirOrderWhenTheSubnetManagerChanges) {
  client->set_sm(kSm, now);
  constexpr std::uint64_t kRequests = 20;
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    ask_path(id, Gid(Gid::kLinkLocalPrefix, Guid(id)));
  }
  port.sent.clear();
  client->set_sm(kOtherSm, now);
  ASSERT_EQ(port.sent.size(), kRequests);
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    const auto record =
        PathRecord::parse(ConstBytes(port.sent[id - 1].mad).subspan(wire::kSaHeaderSize));
    EXPECT_EQ(record->dgid.guid(), Guid(id));
  }
}

}  // namespace
}  // namespace ipoib::sa
