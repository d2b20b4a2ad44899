// Rows of docs/states.md, "Send-only group", and SendGroupTable.
#include "link/send_group_table.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using wire::McMemberRecord;

class SendGroupStates : public ObjectFixture {
 protected:
  void take_turn() {
    group->on_turn();
    ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
    request = emitted<JoinRequest>()[0];
    forget();
  }
  void be_joining() {
    EXPECT_FALSE(group->on_packet(packet(), now));
    take_turn();
  }
  void be_ready() {
    be_joining();
    EXPECT_TRUE(group->on_response(group_record(mgid, 0xc007), now).empty());
    forget();
  }
  void be_missing() {
    be_joining();
    EXPECT_EQ(group->on_response(SaFailure(wire::SaStatus::request_invalid), now).size(), 1U);
    forget();
  }
  template <class S>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<S>(group->state());
  }
  Disposition reach_group_deadline() {
    now = group->next_deadline();
    return group->on_deadline(now);
  }

  const Gid mgid = wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey);
  const GroupDependencies group_deps{config, kOwnGid, handles, out, ids, random, *silent_logger()};
  std::optional<SendGroup> group{std::in_place, group_deps, parking, mgid, true};
  JoinRequest request;
};

using namespace send_group_state;

TEST_F(SendGroupStates, SendGroup_Waiting_Packet) {
  EXPECT_FALSE(group->on_packet(packet(), now)) << "parked";
  EXPECT_EQ(parking.used, 1U);
  EXPECT_TRUE(out.sends.empty());
  EXPECT_TRUE(is<Waiting>());
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(group->on_packet(packet(), now));
  EXPECT_EQ(count(Counter::drop_parked_limit), 1U);
}

TEST_F(SendGroupStates, SendGroup_Waiting_Turn) {
  be_joining();
  EXPECT_TRUE(is<Joining>());
  EXPECT_EQ(request.record.mgid, mgid);
  EXPECT_EQ(request.record.join_state, McMemberRecord::kSendOnlyNonMember);
  EXPECT_EQ(request.components & McMemberRecord::kQKey, 0U) << "no components to create it";
  EXPECT_EQ(parking.used, 1U);
}

TEST_F(SendGroupStates, SendGroup_Waiting_Outdated) {
  EXPECT_EQ(group->on_outdated(), Disposition::keep);
  EXPECT_TRUE(is<Waiting>());
}

TEST_F(SendGroupStates, SendGroup_Waiting_Removed) {
  EXPECT_FALSE(group->on_packet(packet(), now));
  group->on_removed(Counter::drop_link_down, false);
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(SendGroupStates, SendGroup_Joining_Packet) {
  be_joining();
  EXPECT_FALSE(group->on_packet(packet(), now));
  EXPECT_EQ(parking.used, 2U);
  EXPECT_TRUE(out.events.empty()) << "one request";
}

TEST_F(SendGroupStates, SendGroup_Joining_Joined) {
  be_joining();
  EXPECT_TRUE(group->has_requested(request.id));
  EXPECT_TRUE(group->on_response(group_record(mgid, 0xc007), now).empty());
  EXPECT_TRUE(is<Ready>());
  EXPECT_FALSE(group->has_requested(request.id));
  ASSERT_EQ(out.sends.size(), 1U);
  EXPECT_EQ(out.sends[0].qpn, kMulticastQpn);
  EXPECT_EQ(handles.made.back().dlid, Lid(0xc007));
  EXPECT_TRUE(emitted<AttachGroup>().empty()) << "send-only";
  EXPECT_EQ(group->info().state, GroupState::send_only);
}

TEST_F(SendGroupStates, SendGroup_Joining_Joined_NoHandle) {
  be_joining();
  handles.refuses = true;
  EXPECT_EQ(group->on_response(group_record(mgid, 0xc007), now).size(), 1U);
  EXPECT_TRUE(is<Missing>());
}

TEST_F(SendGroupStates, SendGroup_Joining_Refused) {
  be_joining();
  EXPECT_EQ(group->on_response(SaFailure(wire::SaStatus::request_invalid), now).size(), 1U);
  EXPECT_TRUE(is<Missing>());
  EXPECT_EQ(parking.used, 0U);
  EXPECT_EQ(count(Counter::join_refusals), 1U);
  EXPECT_GE(group->next_deadline(), now + config.missing_group * 3 / 4);
}

TEST_F(SendGroupStates, SendGroup_Joining_Outdated) {
  be_joining();
  EXPECT_EQ(group->on_outdated(), Disposition::keep);
  EXPECT_TRUE(group->has_requested(request.id));
}

TEST_F(SendGroupStates, SendGroup_Joining_Removed) {
  be_joining();
  group->on_removed(Counter::drop_link_down, false);
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  EXPECT_TRUE(out.events.empty());
  group->on_removed(Counter::drop_link_down, true);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U) << "the join may still succeed";
}

TEST_F(SendGroupStates, SendGroup_Ready_Packet) {
  be_ready();
  EXPECT_FALSE(group->on_packet(packet(), now));
  EXPECT_EQ(out.sends.size(), 1U);
  EXPECT_TRUE(out.events.empty());
}

TEST_F(SendGroupStates, SendGroup_Ready_Deadline_Used) {
  be_ready();
  now += config.send_only_idle / 2;
  EXPECT_FALSE(group->on_packet(packet(), now));
  const TimePoint used = now;
  EXPECT_EQ(reach_group_deadline(), Disposition::keep);
  EXPECT_EQ(group->next_deadline(), used + config.send_only_idle);
}

TEST_F(SendGroupStates, SendGroup_Ready_Deadline_Idle) {
  be_ready();
  EXPECT_EQ(reach_group_deadline(), Disposition::erase);
  ASSERT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>()[0].record.join_state, McMemberRecord::kSendOnlyNonMember);
}

TEST_F(SendGroupStates, SendGroup_Ready_Outdated) {
  be_ready();
  EXPECT_EQ(group->on_outdated(), Disposition::erase);
  EXPECT_TRUE(out.events.empty()) << "not a member";
}

TEST_F(SendGroupStates, SendGroup_Ready_Removed) {
  be_ready();
  group->on_removed(Counter::drop_link_down, false);
  EXPECT_TRUE(out.events.empty());
  group->on_removed(Counter::drop_link_down, true);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(SendGroupStates, SendGroup_Missing_Packet) {
  be_missing();
  EXPECT_TRUE(group->on_packet(packet(), now)) << "returned";
  EXPECT_TRUE(out.events.empty()) << "no request";
}

TEST_F(SendGroupStates, SendGroup_Missing_Deadline) {
  be_missing();
  EXPECT_EQ(reach_group_deadline(), Disposition::erase);
}

TEST_F(SendGroupStates, SendGroup_Missing_Outdated) {
  be_missing();
  EXPECT_EQ(group->on_outdated(), Disposition::erase);
}

TEST_F(SendGroupStates, SendGroup_Missing_Removed) {
  be_missing();
  group->on_removed(Counter::drop_link_down, true);
  EXPECT_TRUE(out.events.empty());
  EXPECT_EQ(count(Counter::drop_link_down), 0U);
}

class SendGroupTableTest : public SendGroupStates {
 protected:
  [[nodiscard]] static Gid mgid_of(std::uint32_t low) {
    return wire::multicast_gid(Ipv4Address(0xef000000 | low), kDefaultPKey);
  }
  void send(std::uint32_t low, bool routable = true) {
    table.send(mgid_of(low), packet(), routable, now);
  }
  [[nodiscard]] std::vector<JoinRequest> take_requests() {
    const auto requests = emitted<JoinRequest>();
    out.events.clear();
    return requests;
  }
  const Gid routers = wire::multicast_gid(Ipv4Address(0xe0000002), kDefaultPKey);
  SendGroupTable table{group_deps, parking};
};

TEST_F(SendGroupTableTest, RequestsAGroupOnce) {
  send(1);
  send(1);
  const auto requests = take_requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_TRUE(table.on_response({requests[0].id, group_record(mgid_of(1), 0xc001)}, now));
  EXPECT_EQ(out.sends.size(), 2U);
  EXPECT_FALSE(table.on_response({requests[0].id, group_record(mgid_of(1), 0xc001)}, now));
}

TEST_F(SendGroupTableTest, OutstandingRequestsAreLimited) {
  config.limits.group_requests = 2;
  for (std::uint32_t i = 0; i < 5; ++i) send(i);
  auto requests = take_requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(table.on_response({requests[0].id, SaFailure{}}, now));
  requests = take_requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].record.mgid, mgid_of(2));
}

TEST_F(SendGroupTableTest, PacketsOfAMissingGroupGoToTheRouters) {
  send(1, true);
  send(2, false);
  auto requests = take_requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(table.on_response({requests[0].id, SaFailure(wire::SaStatus::request_invalid)}, now));
  EXPECT_TRUE(table.on_response({requests[1].id, SaFailure(wire::SaStatus::request_invalid)}, now));
  EXPECT_EQ(count(Counter::drop_no_group), 1U) << "must not leave the link";
  requests = take_requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].record.mgid, routers);
  EXPECT_TRUE(table.on_response({requests[0].id, group_record(routers, 0xc009)}, now));
  EXPECT_EQ(out.sends.size(), 1U);
  EXPECT_EQ(count(Counter::multicast_by_routers), 1U);
  send(1, true);
  EXPECT_EQ(out.sends.size(), 2U) << "the next one too, without a request";
  EXPECT_TRUE(emitted<JoinRequest>().empty());
}

TEST_F(SendGroupTableTest, WithoutRoutersPacketsAreDropped) {
  send(1);
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  EXPECT_EQ(count(Counter::drop_no_group), 1U);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(SendGroupTableTest, NoticeCausesANewRequest) {
  send(1, false);
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  send(1, false);
  EXPECT_TRUE(take_requests().empty());
  table.on_notice(mgid_of(1));
  send(1, false);
  EXPECT_EQ(take_requests().size(), 1U);
}

TEST_F(SendGroupTableTest, ReregisterCausesNewRequests) {
  send(1);
  EXPECT_TRUE(table.on_response({take_requests()[0].id, group_record(mgid_of(1), 0xc001)}, now));
  table.on_reregister();
  send(1);
  EXPECT_EQ(take_requests().size(), 1U);
}

TEST_F(SendGroupTableTest, EvictsTheOldestGroup) {
  config.limits.send_groups = 2;
  for (std::uint32_t i = 0; i < 2; ++i) {
    send(i);
    EXPECT_TRUE(table.on_response({take_requests()[0].id, group_record(mgid_of(i), 0xc001)}, now));
  }
  send(2);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>()[0].record.mgid, mgid_of(0));
  EXPECT_EQ(count(Counter::groups_evicted), 1U);
  EXPECT_EQ(take_requests().size(), 1U);
  send(3);
  send(4);
  EXPECT_EQ(count(Counter::drop_group_limit), 1U) << "all groups have parked frames";
}

TEST_F(SendGroupTableTest, IdleGroupsAreLeft) {
  send(1);
  EXPECT_TRUE(table.on_response({take_requests()[0].id, group_record(mgid_of(1), 0xc001)}, now));
  now = table.next_deadline();
  table.tick(now);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(table.next_deadline(), kNever);
  std::vector<GroupInfo> all;
  table.append_info(all);
  EXPECT_TRUE(all.empty());
}

}  // namespace
}  // namespace ipoib::link
