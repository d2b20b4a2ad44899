#include "sa/local_sa.hpp"

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
using wire::SaFailure;
using Kind = SaFailure::Kind;

/// The groups of a network device, in memory.
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

/// The neighbours of a network device, in memory.
struct Neighbours final : IpNeighbourPort {
  void resolve(const Gid& gid) override { asked.push_back(gid); }
  State state(const Gid& gid) override { return known[gid]; }

  std::vector<Gid> asked;
  std::map<Gid, State> known;
};

class LocalSaTest : public ::testing::Test {
 protected:
  LocalSaTest() {
    local_sa.set_port({kHere, wire::mtu_code(4096)});
    neighbours.known[kThere] = State::reachable;
  }
  using State = IpNeighbourPort::State;

  template <class Record>
  Record result_as(const wire::SaQuery& query) {
    return std::get<Record>(result_of(query));
  }
  wire::SaResult result_of(const wire::SaQuery& query) {
    local_sa.request({wire::SaRequestId(7), query}, now);
    const auto responses = std::exchange(local_sa.responses(), {});
    EXPECT_EQ(responses.size(), 1U);
    EXPECT_EQ(responses.front().id, wire::SaRequestId(7));
    return responses.front().result;
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
  LocalSa local_sa{parameters(), groups, neighbours, log};
};

TEST_F(LocalSaTest, RespondsToAPathRequestWithTheGid) {
  const auto path = result_as<wire::PathRecord>(wire::path_query(kHere, kThere, kDefaultPKey));
  EXPECT_EQ(path.dgid, kThere);
  EXPECT_EQ(path.sgid, kHere);
  EXPECT_EQ(path.dlid, Lid()) << "RoCE has no LIDs";
  EXPECT_GT(path.hop_limit, 0) << "has a GRH";
  EXPECT_EQ(path.pkey, kDefaultPKey);
  EXPECT_EQ(wire::mtu_bytes(path.mtu), 4096U) << "MTU of the port";
  EXPECT_EQ(path.rate, 0) << "the rate of the port";
  EXPECT_EQ(path.sl, ServiceLevel(3));
  EXPECT_EQ(path.numb_path, 1);
  EXPECT_TRUE(path.reversible);
}

TEST_F(LocalSaTest, RespondsToAPathRequestOnceTheNeighbourIsResolved) {
  neighbours.known[kThere] = State::unknown;
  local_sa.request({wire::SaRequestId(8), wire::path_query(kHere, kThere, kDefaultPKey)}, now);
  EXPECT_THAT(local_sa.responses(), IsEmpty());
  EXPECT_THAT(neighbours.asked, ElementsAre(kThere));
  EXPECT_EQ(local_sa.next_deadline(), now + LocalSa::kNeighbourTimeout);
  local_sa.on_neighbours(now);
  EXPECT_THAT(local_sa.responses(), IsEmpty()) << "event of another neighbour";

  neighbours.known[kThere] = State::reachable;
  local_sa.on_neighbours(now);
  ASSERT_EQ(local_sa.responses().size(), 1U);
  EXPECT_EQ(local_sa.responses()[0].id, wire::SaRequestId(8));
  EXPECT_TRUE(std::holds_alternative<wire::PathRecord>(local_sa.responses()[0].result));
  EXPECT_EQ(local_sa.next_deadline(), kNever);
}

TEST_F(LocalSaTest, RefusesAPathToANeighbourThatDoesNotRespond) {
  neighbours.known[kThere] = State::unknown;
  local_sa.request({wire::SaRequestId(8), wire::path_query(kHere, kThere, kDefaultPKey)}, now);
  neighbours.known[kThere] = State::failed;
  local_sa.on_neighbours(now);
  neighbours.known[kThere] = State::unknown;
  local_sa.request({wire::SaRequestId(9), wire::path_query(kHere, kThere, kDefaultPKey)}, now);
  local_sa.on_neighbours(local_sa.next_deadline());
  ASSERT_EQ(local_sa.responses().size(), 2U);
  for (const auto& response : local_sa.responses()) {
    EXPECT_THAT(std::get<SaFailure>(response.result).text(), HasSubstr("cannot resolve"));
  }
}

TEST_F(LocalSaTest, WaitsForABoundedNumberOfNeighbours) {
  neighbours.known[kThere] = State::unknown;
  const auto query = wire::path_query(kHere, kThere, kDefaultPKey);
  for (std::size_t i = 0; i < LocalSa::kMaxWaiting; ++i) {
    local_sa.request({wire::SaRequestId(i), query}, now);
  }
  EXPECT_EQ(result_as<SaFailure>(query).kind, Kind::overloaded);
}

TEST_F(LocalSaTest, DoesNotResolveItsOwnPort) {
  (void)result_as<wire::PathRecord>(wire::path_query(kHere, kHere, kDefaultPKey));
  EXPECT_THAT(neighbours.asked, IsEmpty());
}

TEST_F(LocalSaTest, RefusesAPathToAnythingButUnicastIpv6) {
  for (const char* const gid : {"::", "::ffff:10.9.0.1", "ff12:401b:ffff::1"}) {
    const auto failure =
        result_as<SaFailure>(wire::path_query(kHere, *Gid::parse(gid), kDefaultPKey));
    EXPECT_EQ(failure.kind, Kind::local);
    EXPECT_THAT(failure.text(), HasSubstr("no unicast IPv6 address")) << gid;
  }
}

TEST_F(LocalSaTest, JoinsWithTheNetworkDevice) {
  const auto joined = result_as<McMemberRecord>(
      wire::join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_THAT(groups.joined, ElementsAre(kBroadcast));
  EXPECT_EQ(joined.mgid, kBroadcast);
  EXPECT_EQ(joined.port_gid, kHere);
  EXPECT_EQ(joined.mlid, Lid());
  EXPECT_EQ(joined.qkey, QKey(0x0b1b));
  EXPECT_EQ(wire::mtu_bytes(joined.mtu), 2048U);
  EXPECT_EQ(joined.pkey, kDefaultPKey);
  EXPECT_EQ(joined.sl, ServiceLevel(3));
  EXPECT_EQ(joined.hop_limit, 1);
  EXPECT_EQ(joined.join_state, McMemberRecord::kFullMember);
  wire::LookupQuery look{joined, McMemberRecord::kMgid | McMemberRecord::kPortGid};
  EXPECT_EQ(result_as<McMemberRecord>(look), joined) << "still a member";

  (void)result_as<McMemberRecord>(
      wire::leave_query(kBroadcast, kHere, McMemberRecord::kFullMember));
  EXPECT_THAT(groups.joined, IsEmpty());
}

TEST_F(LocalSaTest, SendOnlyJoinDoesNotJoinTheNetworkDevice) {
  const auto joined = result_as<McMemberRecord>(
      wire::join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kSendOnlyNonMember));
  EXPECT_THAT(groups.joined, IsEmpty());
  EXPECT_EQ(joined.join_state, McMemberRecord::kSendOnlyNonMember);

  groups.joined = {kBroadcast};
  (void)result_of(wire::leave_query(kBroadcast, kHere, McMemberRecord::kSendOnlyNonMember));
  EXPECT_THAT(groups.joined, ElementsAre(kBroadcast)) << "full membership is kept";
}

TEST_F(LocalSaTest, GroupMtuIsAtMostThePortMtu) {
  local_sa.set_port({kHere, wire::mtu_code(1024)});
  const auto joined = result_as<McMemberRecord>(
      wire::join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(wire::mtu_bytes(joined.mtu), 1024U);
}

TEST_F(LocalSaTest, ReportsWhyTheNetworkDeviceCannotJoin) {
  groups.refusal = "no such network device";
  const auto failure = result_as<SaFailure>(
      wire::join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(failure.text(), "no such network device");
  const auto no_group = result_as<SaFailure>(
      wire::join_query(kThere, kHere, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_THAT(no_group.text(), HasSubstr("no multicast group"));
}

TEST_F(LocalSaTest, RefusesAllWithoutAGid) {
  local_sa.set_port({});
  EXPECT_TRUE(
      std::holds_alternative<SaFailure>(result_of(wire::path_query(kHere, kThere, kDefaultPKey))));
  EXPECT_TRUE(std::holds_alternative<SaFailure>(
      result_of(wire::join_query(kBroadcast, kHere, kDefaultPKey, McMemberRecord::kFullMember))));
  EXPECT_THAT(groups.joined, IsEmpty());
}

TEST_F(LocalSaTest, DoesNotKnowTheMembersOfAGroup) {
  EXPECT_EQ(result_as<SaFailure>(wire::members_query(kBroadcast)).kind, Kind::local);
}

TEST_F(LocalSaTest, RefusesSubscriptions) {
  const auto failure = result_as<SaFailure>(wire::subscribe_query(wire::trap::kGroupCreated));
  EXPECT_EQ(failure.kind, Kind::local);
}

}  // namespace
}  // namespace ipoib::sa
