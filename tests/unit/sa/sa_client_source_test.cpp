// Where a MAD comes from: only the port that was asked can answer a request, whoever else knows the
// transaction id.
#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

#include "sa/request.hpp"
#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

using testing::HasSubstr;
using testing::Not;

class SaClientSourceTest : public SaClientTest {
 protected:
  static constexpr Lid kStranger{9};

  SaClientSourceTest() { client->set_sm(kSm, now); }

  /// Responds to the last request, from another address than it was sent to.
  template <class Change>
  void respond_from(Change change, SaStatus status = SaStatus::ok) {
    port.respond(port.sent.back(), static_cast<std::uint16_t>(status), path());
    change(port.inbox.back().from);
    client->on_readable(now);
  }
  void respond_from(Lid lid) {
    respond_from([lid](MadDestination& from) { from.lid = lid; });
  }
  [[nodiscard]] std::uint64_t foreign() const { return client->counters().foreign_responses; }
};

TEST_F(SaClientSourceTest, ResponseOfAnotherPortIsDropped) {
  ask_path(1);
  respond_from(kStranger);
  EXPECT_TRUE(client->responses().empty());
  EXPECT_EQ(foreign(), 1U);
  EXPECT_EQ(client->counters().unmatched_mads, 0U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U) << "that of the SA is still accepted";
}

TEST_F(SaClientSourceTest, SaysFromWhereAResponseOfAnotherPortCame) {
  std::ostringstream text;
  log.sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  ask_path(1);
  respond_from(kStranger);
  EXPECT_THAT(text.str(), HasSubstr("dropped a response from LID 9, which is not the SA's (1 so "
                                    "far); `saquery NR 9` names its port"));
}

TEST_F(SaClientSourceTest, NoStatusOfAnotherPortCounts) {
  for (const auto status : {SaStatus::busy, SaStatus::redirect, SaStatus::no_records}) {
    ask_path(1);
    respond_from([](MadDestination& from) { from.lid = kStranger; }, status);
    EXPECT_TRUE(client->responses().empty());
    respond(SaStatus::ok, path());
    EXPECT_EQ(client->responses().size(), 1U);
    client->responses().clear();
  }
  EXPECT_EQ(client->counters().busy, 0U);
  EXPECT_EQ(client->counters().redirects, 0U);
  EXPECT_EQ(port.sent.size(), 3U);
}

TEST_F(SaClientSourceTest, PreviousSmIsAnotherPort) {
  ask_path(1);
  client->set_sm(kOtherSm, now);
  respond_from(kSm.lid);
  EXPECT_EQ(foreign(), 1U);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

/// An SM on port 0 of a switch has one LID, whatever the LMC of this port: the next is another
/// port's.
TEST_F(SaClientSourceTest, ResponseComesFromTheLidThatWasAsked) {
  MadDestination sm = kSm;
  sm.lid = Lid(4);
  client->set_sm(sm, now);
  ask_path(1);
  for (const Lid lid : {Lid(3), Lid(5), Lid(7), Lid(8)}) respond_from(lid);
  EXPECT_EQ(foreign(), 4U);
  respond_from(Lid(4));
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientSourceTest, TimeoutIsTheKernelsOwn) {
  ask_path(1);
  port.time_out(port.sent.back());
  port.inbox.back().from.lid = kStranger;  // whatever is there
  client->on_readable(now);
  EXPECT_EQ(client->counters().timeouts, 1U);
  EXPECT_EQ(foreign(), 0U);
}

/// After a redirection, requests under way still get their responses from where they were sent.
TEST_F(SaClientSourceTest, EachRequestHasItsOwnAddress) {
  ask_path(1);
  ask_path(2);
  wire::ClassPortInfo::Address other;
  other.lid = Lid(12);
  other.qpn = wire::kGsiQpn;
  other.qkey = wire::kGsiQKey;
  port.redirect(port.sent[1], other);
  client->on_readable(now);
  ASSERT_EQ(port.sent.size(), 3U);
  EXPECT_EQ(port.sent[2].to.lid, Lid(12));
  respond_from(kSm.lid);
  EXPECT_EQ(foreign(), 1U) << "the SA that has redirected does not answer any more";
  port.respond(port.sent[0], 0, path());
  port.respond(port.sent[2], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().records, 2U);
}

class SaClientGrhTest : public SaClientSourceTest {
 protected:
  static constexpr std::uint64_t kOurPrefix = 0xfe80'0000'0000'0000;
  void ask_with(const Gid& gid, std::uint8_t hop_limit) {
    MadDestination sm = kSm;
    sm.global = GlobalRoute{.dgid = gid, .hop_limit = hop_limit};
    client->set_sm(sm, now);
    ask_path(1);
  }
  void respond_with(std::optional<Gid> gid, Lid lid = kSm.lid) {
    respond_from([&](MadDestination& from) {
      from.lid = lid;
      from.global.reset();
      if (gid) from.global = GlobalRoute{.dgid = *gid};
    });
  }
};

TEST_F(SaClientGrhTest, TheResponseHasTheGidThatWasAsked) {
  const Gid asked(kOurPrefix, Guid(5));
  ask_with(asked, kSubnetHopLimit);
  respond_with(Gid(kOurPrefix, Guid(6)));
  EXPECT_EQ(foreign(), 1U);
  respond_with(asked, kStranger);
  EXPECT_EQ(foreign(), 2U);
  respond_with(asked);
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientGrhTest, WellKnownGidStandsForAnyPort) {
  ask_with(Gid(kOurPrefix, kSaGuid), kSubnetHopLimit);
  respond_with(Gid(kOurPrefix, Guid(6)), kStranger);
  EXPECT_EQ(foreign(), 1U) << "but not for any LID";
  respond_with(Gid(kOurPrefix, Guid(6)));
  EXPECT_EQ(client->counters().records, 1U);
}

/// The LID is that of a router, of which there may be several.
TEST_F(SaClientGrhTest, OnlyTheGidCountsInAnotherSubnet) {
  const Gid asked(0xfec0'0000'0000'0001, Guid(5));
  ask_with(asked, 255);
  respond_with(std::nullopt);
  respond_with(Gid(0xfec0'0000'0000'0001, Guid(6)));
  EXPECT_EQ(foreign(), 2U);
  respond_with(asked, Lid(3));
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(SaClientSourceTest, OffenderIsLoggedAtALimitedRate) {
  std::ostringstream text;
  log.sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  ask_path(1);
  for (int i = 0; i < 50; ++i) respond_from(kStranger);
  EXPECT_THAT(text.str(), HasSubstr("response from LID 9"));
  EXPECT_EQ(std::ranges::count(text.str(), '\n'), 1);
  text.str("");
  now += config.foreign_log_pause;
  respond_from(kStranger);
  EXPECT_THAT(text.str(), HasSubstr("51 so far"));
}

/// Others are served by the same thread.
TEST_F(SaClientSourceTest, TakesALimitedNumberOfMadsPerTurn) {
  ask_path(1);
  port.inbox.resize(config.mads_per_turn + 1);
  port.respond(port.sent.back(), 0, path());
  client->on_readable(now);
  EXPECT_EQ(port.inbox.size(), 2U);
  EXPECT_TRUE(client->responses().empty());
  client->on_readable(now);
  EXPECT_EQ(client->counters().records, 1U) << "the next turn";
}

}  // namespace
}  // namespace ipoib::sa
