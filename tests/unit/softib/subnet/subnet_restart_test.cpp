// Restart of the subnet process: clients see an SM restart, and no packet is lost.
#include "sa_client.hpp"
#include "subnet_snapshot.hpp"
#include "wire/path_record.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::McMemberRecord;
using ipoib::wire::SaStatus;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

const Gid kGroupOfA =
    ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0010203), ipoib::kDefaultPKey);
const Gid kGroupOfB =
    ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0010204), ipoib::kDefaultPKey);

Lid join(SaClient& client, const Gid& mgid) {
  const auto reply = client.send_request(method::kSet, attribute::kMcMemberRecord, member::kCreate,
                                         member::record(mgid, client.gid()));
  EXPECT_EQ(reply->status(), SaStatus::ok);
  return McMemberRecord::parse(reply->data)->mlid;
}

SaStatus leave(SaClient& client, const Gid& mgid) {
  return client
      .send_request(method::kDelete, attribute::kMcMemberRecord, member::kJoin,
                    member::record(mgid, client.gid()))
      ->status();
}

/// `before` was killed; `after` has adopted its state.
class SubnetRestart : public ::testing::Test {
 protected:
  SubnetRestart() {
    SaClient a(before, "a");
    SaClient b(before, "b");
    for (auto* client : {&a, &b}) {
      EXPECT_EQ(join(*client, broadcast()), Lid(0xc000));
    }
    EXPECT_EQ(join(a, kGroupOfA), Lid(0xc001));
    EXPECT_EQ(join(b, kGroupOfB), Lid(0xc002));
    after.adopt(snapshot_of(before), kStart);
  }
  NodeSet receivers(std::uint16_t mlid) { return after.forwarding(Lid(mlid)).receivers; }

  Subnet before;
  Subnet after;
};

TEST_F(SubnetRestart, NodesStayAndAreAskedToReregister) {
  for (const auto* name : {"a", "b"}) {
    const auto index = before.find(name).value();
    ASSERT_EQ(after.find(name), index);
    auto port = after.node(index)->port;
    EXPECT_EQ(port.reregister_count, 1U);
    port.reregister_count = 0;
    EXPECT_EQ(port, before.node(index)->port);
  }
}

TEST_F(SubnetRestart, ForwardingStaysAndMembershipsAreDiscarded) {
  for (std::uint16_t mlid = 0xc000; mlid <= 0xc002; ++mlid) {
    EXPECT_EQ(after.forwarding(Lid(mlid)), before.forwarding(Lid(mlid)));
  }
  SaClient a(after, "a");
  a.trust(true);
  const auto reply =
      a.send_request(method::kGetTable, attribute::kMcMemberRecord, 0, McMemberRecord{});
  EXPECT_TRUE(reply->records<McMemberRecord>().empty());
}

TEST_F(SubnetRestart, RecreatedGroupGetsTheSameMlid) {
  SaClient b(after, "b");
  EXPECT_EQ(join(b, kGroupOfB), Lid(0xc002));
  const Gid fresh = ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0010299), ipoib::kDefaultPKey);
  EXPECT_EQ(join(b, fresh), Lid(0xc003)) << "not an MLID that others still send to";
}

TEST_F(SubnetRestart, AfterTheGracePeriodOnlyMembersReceive) {
  SaClient a(after, "a");
  (void)join(a, broadcast());
  EXPECT_EQ(receivers(0xc000).count(), 2U);
  (void)after.take_changes();
  EXPECT_EQ(after.next_deadline(), kStart + kRejoinGrace);
  after.on_time(kStart + kRejoinGrace);
  EXPECT_EQ(receivers(0xc000), NodeSet().set(a.index()));
  EXPECT_TRUE(after.forwarding(Lid(0xc001)).mgid.is_zero());
  EXPECT_EQ(after.take_changes().groups.count(), 3U);
  EXPECT_EQ(after.next_deadline(), ipoib::kNever);
}

TEST_F(SubnetRestart, LeavingStopsReceivingAtOnce) {
  SaClient a(after, "a");
  (void)join(a, broadcast());
  EXPECT_EQ(leave(a, broadcast()), SaStatus::ok);
  EXPECT_FALSE(receivers(0xc000)[a.index()]);
}

TEST_F(SubnetRestart, PortThatGoesDownStopsReceivingAtOnce) {
  const auto a = after.find("a").value();
  ASSERT_TRUE(after.set_port_state(a, PortState::down));
  EXPECT_FALSE(receivers(0xc000)[a]);
  EXPECT_TRUE(receivers(0xc001).none());
}

TEST_F(SubnetRestart, PortThatIsDownStaysDownAndReceivesNothing) {
  const auto a = before.find("a").value();
  auto snapshot = snapshot_of(before);
  for (auto& entry : snapshot.nodes) {
    if (entry.index == a) entry.node.port.state = PortState::down;
  }
  Subnet third;
  third.adopt(snapshot, kStart);
  EXPECT_EQ(third.node(a)->port.state, PortState::down);
  EXPECT_FALSE(third.forwarding(Lid(0xc000)).receivers[a]);
}

TEST_F(SubnetRestart, EverythingIsPublishedAgain) {
  const auto changes = after.take_changes();
  EXPECT_EQ(changes.nodes.count(), 3U);
  EXPECT_EQ(changes.groups.count(), 3U);
  ASSERT_EQ(changes.switches.size(), 1U);
  EXPECT_TRUE(changes.switches[0].ports && changes.switches[0].routes.all() &&
              changes.switches[0].groups.all())
      << "a killed writer may have left any state";
}

TEST_F(SubnetRestart, SmRestartsWithoutItsProcess) {
  SaClient a(before, "a");
  ASSERT_TRUE(before.restart_sm(kStart));
  EXPECT_EQ(a.port().reregister_count, 1U);
  EXPECT_EQ(before.groups().size(), 1U);
  EXPECT_TRUE(before.groups()[0].permanent);
  EXPECT_TRUE(before.groups()[0].members.empty());
  EXPECT_EQ(before.forwarding(Lid(0xc001)).receivers.count(), 1U);
  EXPECT_EQ(join(a, kGroupOfA), Lid(0xc001));
}

}  // namespace
}  // namespace softib::subnet
