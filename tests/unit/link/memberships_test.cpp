#include "link/memberships.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tests/unit/link/object_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Response = Memberships::Response;

/// All groups of a link, in place of those of the fixture.
class MembershipsTest : public ObjectFixture {
 protected:
  [[nodiscard]] std::vector<JoinRequest> take_joins() {
    auto joins = emitted<JoinRequest>();
    out.events.clear();
    return joins;
  }
  [[nodiscard]] Response grant(const JoinRequest& join, std::uint16_t mlid = 0xc001) {
    return all.on_response({join.id, group_record(join.record.mgid, mlid)}, now);
  }
  /// Joins the broadcast group and those that are always joined after it.
  void be_member() {
    all.join_broadcast();
    ASSERT_EQ(grant(take_joins().at(0), 0xc000), Response::broadcast_joined);
    parameters = *all.broadcast().record();
    all.join_others(now);
    for (const auto& join : take_joins()) EXPECT_EQ(grant(join), Response::group);
    ASSERT_TRUE(all.all_nodes_settled());
    forget();
  }
  [[nodiscard]] static Gid group(std::uint32_t address) {
    return wire::multicast_gid(Ipv4Address(address), kDefaultPKey);
  }
  [[nodiscard]] std::vector<Gid> joined() {
    std::vector<Gid> mgids;
    for (const auto& join : take_joins()) mgids.push_back(join.record.mgid);
    return mgids;
  }
  void notify(std::uint16_t trap, const Gid& mgid) {
    wire::Notice notice;
    notice.trap_number = trap;
    notice.gid = mgid;
    all.on_notice(notice, now);
  }
  void send(std::uint32_t address) { all.output().send(Ipv4Address(address), packet(), now); }

  Memberships all{membership, parking, kHashKey};
};

TEST_F(MembershipsTest, TheBroadcastGroupIsCreatedOnlyIfThatIsAllowed) {
  config.creation.allowed = true;
  config.creation.qkey = QKey(0x77);
  config.creation.mtu = 5;
  config.scopes = {wire::kLinkLocalScope};
  all.join_broadcast();
  const auto first = take_joins();
  ASSERT_THAT(first, SizeIs(1));
  const wire::SaResponse missing{first[0].id, SaFailure(wire::SaStatus::no_records)};
  EXPECT_EQ(all.on_response(missing, now), Response::group);
  const auto creating = take_joins();
  ASSERT_THAT(creating, SizeIs(1));
  EXPECT_EQ(creating[0].record.qkey, QKey(0x77));
  EXPECT_EQ(creating[0].record.mtu, 5);
}

TEST_F(MembershipsTest, AResponseSaysWhatHasBeenJoined) {
  be_member();
  EXPECT_EQ(all.on_response({wire::SaRequestId(9999), group_record(group(1))}, now),
            Response::group)
      << "nobody has sent that request";
  all.set_station_groups({Ipv4Address(0xe1010101)}, now);
  EXPECT_EQ(grant(take_joins().at(0), 0xc005), Response::group);
  EXPECT_THAT(emitted<AttachGroup>(), ElementsAre(AttachGroup{group(0xe1010101), Lid(0xc005)}));
  send(0xe1020202);
  EXPECT_EQ(grant(take_joins().at(0), 0xc006), Response::other) << "the link does not receive it";
  EXPECT_THAT(emitted<AttachGroup>(), IsEmpty());
}

TEST_F(MembershipsTest, TheQueuePairIsAttachedToTheBroadcastGroupWhenItIsConfigured) {
  all.join_broadcast();
  ASSERT_EQ(grant(take_joins().at(0), 0xc000), Response::broadcast_joined);
  EXPECT_THAT(emitted<AttachGroup>(), IsEmpty());
  all.attach_broadcast();
  EXPECT_THAT(emitted<AttachGroup>(), SizeIs(1));
}

TEST_F(MembershipsTest, NeitherTheHostNorStationsUseUpTheLimitAlone) {
  config.limits.host_groups = 4;
  config.limits.station_groups = 2;
  be_member();
  view.groups = {Ipv4Address(0xe1000001), Ipv4Address(0xe1000002), Ipv4Address(0xe1000003)};
  all.on_host_changed(view, now);
  (void)take_joins();
  all.set_station_groups(
      {Ipv4Address(0xe1000011), Ipv4Address(0xe1000012), Ipv4Address(0xe1000013)}, now);
  EXPECT_THAT(joined(), testing::UnorderedElementsAre(group(0xe1000011), group(0xe1000012)));
  EXPECT_EQ(emitted<LeaveRequest>().size(), 0U);
  std::set<Gid> listed;
  for (const auto& info : all.info()) listed.insert(info.mgid);
  EXPECT_THAT(listed, Contains(group(0xe1000001)));
  EXPECT_THAT(listed, Contains(group(0xe1000002)));
  EXPECT_THAT(listed, Not(Contains(group(0xe1000003))));
  view.groups = {Ipv4Address(0xe1000001)};
  all.on_host_changed(view, now);
  EXPECT_THAT(joined(), ElementsAre(group(0xe1000013))) << "there is room for it now";
}

TEST_F(MembershipsTest, AMulticastRouterReceivesTheAllRoutersGroupAndRoutedOnes) {
  be_member();
  all.on_up();
  view.routes_ipv4_multicast = true;
  all.on_host_changed(view, now);
  EXPECT_THAT(joined(), ElementsAre(wire::multicast_gid(kAllRouters, kDefaultPKey)));
  const Gid created = group(0xe1050505);
  notify(wire::trap::kGroupCreated, created);
  EXPECT_THAT(joined(), ElementsAre(created));
  notify(wire::trap::kGroupDeleted, created);
  std::set<Gid> listed;
  for (const auto& info : all.info()) listed.insert(info.mgid);
  EXPECT_THAT(listed, Not(Contains(created)));
}

TEST_F(MembershipsTest, LeavesOnlyIfThePortCanSend) {
  be_member();
  all.go_down(false, now);
  EXPECT_THAT(emitted<LeaveRequest>(), IsEmpty());
  forget();
  be_member();
  send(0xe1020202);
  EXPECT_EQ(grant(take_joins().at(0)), Response::other);
  all.go_down(true, now);
  EXPECT_THAT(emitted<LeaveRequest>(), SizeIs(4)) << "broadcast, two all-nodes groups, send-only";
  EXPECT_EQ(all.broadcast().record(), nullptr);
}

TEST_F(MembershipsTest, RestoresGroupsOfThisLinkOnly) {
  be_member();
  send(0xe1020202);
  EXPECT_FALSE(all.is_settled());
  (void)grant(take_joins().at(0));
  EXPECT_TRUE(all.is_settled());
  EXPECT_THAT(all.save(), ElementsAre(group(0xe1020202)));
  all.restore({group(0xe1030303), wire::multicast_gid(Ipv4Address(0xe1040404), PKey(0x8001)),
               wire::multicast_gid(Ipv4Address(0xe1040404), kDefaultPKey, 0xe)});
  EXPECT_THAT(joined(), ElementsAre(group(0xe1030303)));
}

}  // namespace
}  // namespace ipoib::link
