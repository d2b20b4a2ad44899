#include "sa/local_administrator.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>

#include <map>
#include <set>

#include "ipoib/log.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::McMemberRecord;

/// A network device's groups, as a set in memory.
struct Groups final : IpGroupPort {
  Result<void> join(const Gid& mgid) override {
    if (!refusal.empty()) return Error(1, refusal);
    joined.insert(mgid);
    return {};
  }
  void leave(const Gid& mgid) override { joined.erase(mgid); }

  std::set<Gid> joined;
  std::string refusal;
};

/// Neighbours, as a map in memory.
struct Neighbours final : IpNeighbourPort {
  void resolve(const Gid& gid) override { asked.push_back(gid); }
  State state(const Gid& gid) override { return known[gid]; }

  std::vector<Gid> asked;
  std::map<Gid, State> known;
};

class LocalAdministratorTest : public ::testing::Test {
 protected:
  LocalAdministratorTest() {
    administrator.set_port({kHere, wire::mtu_code(4096)});
    neighbours.known[kThere] = State::reachable;
  }
  using State = IpNeighbourPort::State;

  template <class Record>
  Record answer_to(const Query& query) {
    return std::get<Record>(result_of(query));
  }
  decltype(Answer::result) result_of(const Query& query) {
    administrator.ask(QueryId(7), query, now);
    const auto answers = std::exchange(administrator.answers(), {});
    EXPECT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers.front().id, QueryId(7));
    return answers.front().result;
  }
  static McMemberRecord parameters() {
    McMemberRecord record;
    record.qkey = QKey(0x0b1b);
    record.mtu = wire::mtu_code(2048);
    record.hop_limit = 1;
    record.sl = ServiceLevel(3);
    return record;
  }

  static inline const Gid kHere{Gid::kLinkLocalPrefix, Guid(0x0200'00ff'fe00'0001)};
  static inline const Gid kThere{Gid::kLinkLocalPrefix, Guid(0x0200'00ff'fe00'0002)};
  static inline const Gid kBroadcast = wire::broadcast_gid(kDefaultPKey);

  TimePoint now{std::chrono::hours(1)};
  Groups groups;
  Neighbours neighbours;
  Logger log{"sa", std::make_shared<spdlog::sinks::null_sink_st>()};
  LocalAdministrator administrator{parameters(), groups, neighbours, log};
};

TEST_F(LocalAdministratorTest, AnswersAPathByTheGidItself) {
  const auto path = answer_to<wire::PathRecord>(path_query(kHere, kThere, kDefaultPKey));
  EXPECT_EQ(path.dgid, kThere);
  EXPECT_EQ(path.sgid, kHere);
  EXPECT_EQ(path.dlid, Lid()) << "there are none";
  EXPECT_GT(path.hop_limit, 0) << "by a global route";
  EXPECT_EQ(path.pkey, kDefaultPKey);
  EXPECT_EQ(wire::mtu_octets(path.mtu), 4096U) << "that of the port";
  EXPECT_EQ(path.rate, 0) << "the port's own";
  EXPECT_EQ(path.sl, ServiceLevel(3));
}

TEST_F(LocalAdministratorTest, AnswersAPathOnceTheNeighbourIsKnown) {
  neighbours.known[kThere] = State::unknown;
  administrator.ask(QueryId(8), path_query(kHere, kThere, kDefaultPKey), now);
  EXPECT_THAT(administrator.answers(), IsEmpty());
  EXPECT_THAT(neighbours.asked, ElementsAre(kThere));
  EXPECT_EQ(administrator.next_deadline(), now + LocalAdministrator::kPatience);
  administrator.on_neighbours(now);
  EXPECT_THAT(administrator.answers(), IsEmpty()) << "another one";

  neighbours.known[kThere] = State::reachable;
  administrator.on_neighbours(now);
  ASSERT_EQ(administrator.answers().size(), 1U);
  EXPECT_EQ(administrator.answers()[0].id, QueryId(8));
  EXPECT_TRUE(std::holds_alternative<wire::PathRecord>(administrator.answers()[0].result));
  EXPECT_EQ(administrator.next_deadline(), kNever);
}

TEST_F(LocalAdministratorTest, RefusesAPathToANeighbourThatDoesNotAnswer) {
  neighbours.known[kThere] = State::unknown;
  administrator.ask(QueryId(8), path_query(kHere, kThere, kDefaultPKey), now);
  neighbours.known[kThere] = State::failed;
  administrator.on_neighbours(now);
  neighbours.known[kThere] = State::unknown;
  administrator.ask(QueryId(9), path_query(kHere, kThere, kDefaultPKey), now);
  administrator.on_neighbours(administrator.next_deadline());
  ASSERT_EQ(administrator.answers().size(), 2U);
  for (const auto& answer : administrator.answers()) {
    EXPECT_THAT(std::get<SaFailure>(answer.result).text(), HasSubstr("nobody answers"));
  }
}

TEST_F(LocalAdministratorTest, WaitsForABoundedNumberOfNeighbours) {
  neighbours.known[kThere] = State::unknown;
  const auto query = path_query(kHere, kThere, kDefaultPKey);
  for (std::size_t i = 0; i < LocalAdministrator::kMaxWaiting; ++i) {
    administrator.ask(QueryId(i), query, now);
  }
  EXPECT_EQ(answer_to<SaFailure>(query).kind, FailureKind::overloaded);
}

TEST_F(LocalAdministratorTest, NeedNotLookForItsOwnPort) {
  (void)answer_to<wire::PathRecord>(path_query(kHere, kHere, kDefaultPKey));
  EXPECT_THAT(neighbours.asked, IsEmpty());
}

TEST_F(LocalAdministratorTest, RefusesAPathToWhatIsNoIpv6Address) {
  for (const char* const gid : {"::", "::ffff:10.9.0.1", "ff12:401b:ffff::1"}) {
    const auto failure = answer_to<SaFailure>(path_query(kHere, *Gid::parse(gid), kDefaultPKey));
    EXPECT_EQ(failure.kind, FailureKind::refused_here);
    EXPECT_THAT(failure.text(), HasSubstr("no IPv6 address")) << gid;
  }
}

TEST_F(LocalAdministratorTest, JoinsWithTheNetworkDevice) {
  const auto joined = answer_to<McMemberRecord>(
      join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_THAT(groups.joined, ElementsAre(kBroadcast));
  EXPECT_EQ(joined.mgid, kBroadcast);
  EXPECT_EQ(joined.port_gid, kHere);
  EXPECT_EQ(joined.mlid, Lid());
  EXPECT_EQ(joined.qkey, QKey(0x0b1b));
  EXPECT_EQ(wire::mtu_octets(joined.mtu), 2048U);
  EXPECT_EQ(joined.pkey, kDefaultPKey);
  EXPECT_EQ(joined.sl, ServiceLevel(3));
  EXPECT_EQ(joined.hop_limit, 1);
  EXPECT_EQ(joined.join_state, McMemberRecord::kFullMember);
  LookupQuery look{joined, McMemberRecord::kMgid | McMemberRecord::kPortGid};
  EXPECT_EQ(answer_to<McMemberRecord>(look), joined) << "and stays a member";

  (void)answer_to<McMemberRecord>(leave_query(kBroadcast, kHere, McMemberRecord::kFullMember));
  EXPECT_THAT(groups.joined, IsEmpty());
}

TEST_F(LocalAdministratorTest, SendsToAGroupWithoutJoiningIt) {
  const auto joined = answer_to<McMemberRecord>(
      join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kSendOnlyNonMember));
  EXPECT_THAT(groups.joined, IsEmpty());
  EXPECT_EQ(joined.join_state, McMemberRecord::kSendOnlyNonMember);

  groups.joined = {kBroadcast};
  (void)result_of(leave_query(kBroadcast, kHere, McMemberRecord::kSendOnlyNonMember));
  EXPECT_THAT(groups.joined, ElementsAre(kBroadcast)) << "a full member stays one";
}

TEST_F(LocalAdministratorTest, GroupHasNoMoreThanThePortsMtu) {
  administrator.set_port({kHere, wire::mtu_code(1024)});
  const auto joined = answer_to<McMemberRecord>(
      join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(wire::mtu_octets(joined.mtu), 1024U);
}

TEST_F(LocalAdministratorTest, SaysWhyTheNetworkDeviceCannotJoin) {
  groups.refusal = "no such network device";
  const auto failure = answer_to<SaFailure>(
      join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(failure.text(), "no such network device");
  const auto no_group =
      answer_to<SaFailure>(join_query(kThere, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_THAT(no_group.text(), HasSubstr("no group"));
}

TEST_F(LocalAdministratorTest, PortWithoutGidCanDoNothing) {
  administrator.set_port({});
  EXPECT_TRUE(
      std::holds_alternative<SaFailure>(result_of(path_query(kHere, kThere, kDefaultPKey))));
  EXPECT_TRUE(std::holds_alternative<SaFailure>(
      result_of(join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember))));
  EXPECT_THAT(groups.joined, IsEmpty());
}

TEST_F(LocalAdministratorTest, DoesNotKnowTheMembersOfAGroup) {
  EXPECT_EQ(answer_to<SaFailure>(members_query(kBroadcast)).kind, FailureKind::refused_here);
}

TEST_F(LocalAdministratorTest, HasNothingToReport) {
  const auto failure = answer_to<SaFailure>(subscribe_query(wire::trap::kGroupCreated));
  EXPECT_EQ(failure.kind, FailureKind::refused_here);
}

}  // namespace
}  // namespace ipoib::sa
