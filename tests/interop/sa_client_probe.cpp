// The SA client over libibumad, against third-party SAs. The expected responses are those of
// OpenSM 3.3.23, which opensm_on_ibsim.py starts. management_on_softib.py runs the same tests
// against the emulated SA. All tests share one port: ibsim supports one MAD agent per class and
// process.
#include <gmock/gmock.h>
#include <poll.h>

#include <set>

#include "sa/request.hpp"
#include "sa_client_host.hpp"

namespace ipoib::sa {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace test;
using OpenSm = ClientTest;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaStatus;

constexpr std::uint8_t kBeyondPorts = 10;  // 120 Gb/s

/// Joins a group on behalf of another port, which only a trusted request may.
void join_for(const Gid& port, const Gid& mgid) {
  auto mad =
      request_mad(wire::join_query(mgid, port, kDefaultPKey, McMemberRecord::kFullMember), 1);
  auto header = *wire::SaHeader::parse(mad);
  header.sm_key = wire::MembersQuery::kSmKey;
  header.emit(mad);
  host().mads->send(host().sm, mad, seconds(5)).value();
  pollfd readable{host().mads->fd(), POLLIN, 0};
  (void)poll(&readable, 1, -1);
  const auto received = host().mads->receive();
  ASSERT_TRUE(received && !received->timed_out);
  ASSERT_EQ(wire::SaHeader::parse(received->bytes)->mad.status, 0);
}

TEST_F(OpenSm, JoinsTheBroadcastGroup) {
  const auto member =
      record<McMemberRecord>(join(kBroadcast, kDefaultPKey, McMemberRecord::kFullMember));
  EXPECT_EQ(member.mgid, kBroadcast);
  EXPECT_EQ(member.port_gid, host().gid);
  EXPECT_EQ(member.mlid, Lid(0xc000));
  EXPECT_EQ(member.qkey, QKey(0x0b1b));
  EXPECT_EQ(member.pkey, kDefaultPKey);
  EXPECT_EQ(member.mtu_selector, wire::Selector::exactly);
  EXPECT_EQ(member.mtu, 4);
  EXPECT_EQ(member.rate, 3);
  EXPECT_EQ(member.scope, 2);
  EXPECT_EQ(member.join_state, McMemberRecord::kFullMember);
}

TEST_F(OpenSm, JoinsWithEachState) {
  std::uint8_t states = 0;
  for (const std::uint8_t state :
       {McMemberRecord::kFullMember, McMemberRecord::kNonMember, McMemberRecord::kSendOnlyNonMember,
        McMemberRecord::kSendOnlyFullMember}) {
    states = static_cast<std::uint8_t>(states | state);
    EXPECT_EQ(record<McMemberRecord>(join(kBroadcast, kDefaultPKey, state)).join_state, states);
  }
  states ^= McMemberRecord::kFullMember;
  const auto rest = record<McMemberRecord>(wire::leave_query(kBroadcast, host().gid, states));
  EXPECT_EQ(rest.mgid, kBroadcast);
}

TEST_F(OpenSm, CreatesAGroupForAFullMember) {
  const auto member = record<McMemberRecord>(create(group(1), McMemberRecord::kFullMember));
  EXPECT_EQ(member.mgid, group(1));
  EXPECT_GT(member.mlid, Lid(0xc001)) << "the groups of the partitions come first";
  EXPECT_EQ(member.qkey, QKey(0x0b1b));
}

TEST_F(OpenSm, CreatesAGroupForASendOnlyFullMember) {
  EXPECT_TRUE(is_multicast(
      record<McMemberRecord>(create(group(2), McMemberRecord::kSendOnlyFullMember)).mlid));
}

TEST_F(OpenSm, RefusesASendOnlyNonMemberWithoutAGroup) {
  EXPECT_EQ(refusal(create(group(3), McMemberRecord::kSendOnlyNonMember)),
            SaStatus::request_invalid);
}

TEST_F(OpenSm, RefusesToCreateAGroupWithoutComponents) {
  EXPECT_EQ(refusal(join(group(4), kDefaultPKey, McMemberRecord::kFullMember)),
            SaStatus::insufficient_components);
}

TEST_F(OpenSm, RefusesAPartitionThatThePortIsNotIn) {
  auto query = create(wire::broadcast_gid(kForeign), McMemberRecord::kFullMember);
  query.record.pkey = kForeign;
  EXPECT_EQ(refusal(query), SaStatus::request_invalid);
}

TEST_F(OpenSm, RefusesAGroupBeyondThePortsMtu) {
  EXPECT_EQ(refusal(join(wire::broadcast_gid(kRed), kRed, McMemberRecord::kFullMember)),
            SaStatus::request_invalid);
}

TEST_F(OpenSm, RefusesAGroupBeyondThePortsRate) {
  auto query = create(group(7), McMemberRecord::kFullMember);
  query.record.rate = kBeyondPorts;
  EXPECT_EQ(refusal(query), SaStatus::request_invalid);
}

TEST_F(OpenSm, SubscribesToPortsAndGroups) {
  for (std::uint16_t trap = wire::trap::kInService; trap <= wire::trap::kGroupDeleted; ++trap) {
    EXPECT_EQ(record<wire::InformInfo>(wire::subscribe_query(trap)).trap_number, trap);
    EXPECT_FALSE(record<wire::InformInfo>(wire::unsubscribe_query(trap)).subscribe);
    EXPECT_EQ(refusal(wire::unsubscribe_query(trap)), SaStatus::request_invalid) << "only once";
  }
}

TEST_F(OpenSm, LeavesOnce) {
  (void)record<McMemberRecord>(create(group(5), McMemberRecord::kFullMember));
  const auto leave = wire::leave_query(group(5), host().gid, McMemberRecord::kFullMember);
  EXPECT_EQ(record<McMemberRecord>(leave).mgid, group(5));
  EXPECT_EQ(refusal(leave), SaStatus::request_invalid);
}

TEST_F(OpenSm, ReturnsThePathToThePeer) {
  const auto path = record<PathRecord>(wire::path_query(host().gid, host().peer, kDefaultPKey));
  EXPECT_EQ(path.dgid, host().peer);
  EXPECT_EQ(path.sgid, host().gid);
  EXPECT_EQ(path.dlid, host().sm.lid) << "the subnet manager runs on the peer";
  EXPECT_EQ(path.slid, host().lid);
  EXPECT_TRUE(path.reversible);
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(wire::rate_mbps(path.rate), host().rate * 1000) << "both ports have the same";
  EXPECT_EQ(path.lifetime, 18);
  EXPECT_EQ(path.hop_limit, 0);
}

TEST_F(OpenSm, HasNoPathToAnUnknownPort) {
  const Gid unknown(host().gid.prefix(), Guid(0xdead));
  EXPECT_EQ(refusal(wire::path_query(host().gid, unknown, kDefaultPKey)), SaStatus::no_records);
}

TEST_F(OpenSm, HasNoPathInAPartitionThatIsNotShared) {
  EXPECT_EQ(refusal(wire::path_query(host().gid, host().peer, kForeign)), SaStatus::no_records);
}

TEST_F(OpenSm, LookupShowsMembership) {
  wire::LookupQuery lookup;
  lookup.record.mgid = group(7);
  lookup.record.port_gid = host().gid;
  lookup.components = McMemberRecord::kMgid | McMemberRecord::kPortGid;
  EXPECT_EQ(refusal(lookup), SaStatus::no_records) << "the group does not exist";
  const auto made = record<McMemberRecord>(create(group(7), McMemberRecord::kFullMember));
  EXPECT_EQ(record<McMemberRecord>(lookup).mlid, made.mlid);
  join_for(host().peer, group(7));
  (void)record<McMemberRecord>(
      wire::leave_query(group(7), host().gid, McMemberRecord::kFullMember));
  EXPECT_EQ(refusal(lookup), SaStatus::no_records) << "only others are members";
}

// Three members fit into one MAD, which is all that ibsim supports; more need RMPP.
TEST_F(OpenSm, ListsTheMembersOfAGroup) {
  EXPECT_TRUE(record<wire::McMemberTable>(wire::members_query(group(6))).empty());
  (void)record<McMemberRecord>(create(group(6), McMemberRecord::kFullMember));
  std::set<Gid> expected{host().gid};
  for (const Gid& port : host().others) {
    join_for(port, group(6));
    expected.insert(port);
  }
  std::set<Gid> found;
  for (const auto& member : record<wire::McMemberTable>(wire::members_query(group(6)))) {
    EXPECT_EQ(member.join_state, McMemberRecord::kFullMember);
    found.insert(member.port_gid);
  }
  EXPECT_EQ(found, expected);
}

TEST_F(OpenSm, ListsNodesAndPorts) {
  const auto mine = record<wire::NodeTable>(wire::nodes_query(host().lid));
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine[0].lid, host().lid);
  EXPECT_EQ(mine[0].node.port_guid, host().gid.guid());
  const auto ports = record<wire::PortTable>(wire::ports_query(host().lid));
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].info.lid, host().lid);
  EXPECT_EQ(ports[0].info.sm_lid, host().sm.lid);
  EXPECT_EQ(ports[0].info.port_state, 4) << "active";
  EXPECT_TRUE(record<wire::NodeTable>(wire::nodes_query(Lid(0xbff))).empty());
}

TEST_F(OpenSm, ListsServices) {
  EXPECT_TRUE(record<wire::ServiceTable>(wire::services_query(0x77)).empty());
}

TEST_F(OpenSm, RespondsToMoreRequestsThanTheWindow) {
  constexpr std::size_t kCount = 300;
  for (std::size_t id = 0; id < kCount; ++id) {
    client.request({wire::SaRequestId(id), wire::path_query(host().gid, host().peer, kDefaultPKey)},
                   now());
  }
  for (const auto& response : responses(client, kCount)) {
    EXPECT_TRUE(std::holds_alternative<PathRecord>(response.result)) << response.id.value();
  }
  EXPECT_EQ(client.counters().records, kCount);
  EXPECT_LE(client.counters().unmatched_mads, client.counters().timeouts) << "late responses";
}

TEST_F(OpenSm, TimesOutWithoutAnSa) {
  Config impatient;
  impatient.path = {.attempts = 2,
                    .timeout = {milliseconds(20), milliseconds(20)},
                    .pause = {milliseconds(1), milliseconds(1)}};
  impatient.port_grace = milliseconds(20);
  SaClient lost(impatient, *host().mads, log, 2, random_source());
  lost.set_sm(MadDestination{Lid(0xbff), ServiceLevel(0), 0}, now());
  lost.request({wire::SaRequestId(1), wire::path_query(host().gid, host().peer, kDefaultPKey)},
               now());
  EXPECT_EQ(std::get<wire::SaFailure>(responses(lost).front().result).kind,
            wire::SaFailure::Kind::timeout);
}

TEST_F(OpenSm, ReportsUnknownDeviceAndPort) {
  const auto no_device = verbs::UmadPort::open("mlx5_9", 1);
  ASSERT_TRUE(no_device.has_error());
  EXPECT_THAT(no_device.error().message, testing::HasSubstr("mlx5_9"));
  const auto no_port = verbs::UmadPort::open(host().device, 9);
  ASSERT_TRUE(no_port.has_error());
  EXPECT_THAT(no_port.error().message, testing::HasSubstr("port 9"));
}

}  // namespace
}  // namespace ipoib::sa

int main(int argc, char** argv) { return ipoib::sa::test::run(argc, argv); }
