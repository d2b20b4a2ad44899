// Rows of docs/states.md, "Send-only group", and SendGroupTable.
#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <set>

#include "link/send_group_table.hpp"
#include "tests/unit/link/group_fixture.hpp"
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
  Disposition reach_group_deadline(bool may_request = true) {
    now = group->next_deadline();
    return group->on_deadline(may_request, now);
  }
  /// Ready, and has been used before the deadline of its check.
  void use_until_check() {
    be_ready();
    now += 1s;
    EXPECT_FALSE(group->on_packet(packet(), now));
    forget();
  }
  void be_confirming() {
    use_until_check();
    EXPECT_EQ(reach_group_deadline(), Disposition::keep);
    ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
    request = emitted<JoinRequest>()[0];
    forget();
  }

  const Gid mgid = wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey);
  FailureCount failures;
  std::optional<SendGroup> group{std::in_place, membership, parking, failures, mgid};
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
  EXPECT_EQ(count(Counter::groups_missing), 1U);
  EXPECT_EQ(count(Counter::join_failures), 0U) << "nobody listens, which is no fault";
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
  use_until_check();
  const TimePoint deadline = group->next_deadline();
  EXPECT_GE(deadline, now - 1s + config.membership_check * 3 / 4);
  EXPECT_LE(deadline, now + config.membership_check * 5 / 4);
  EXPECT_EQ(reach_group_deadline(), Disposition::keep);
  EXPECT_TRUE(is<Confirming>());
  ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.join_state, McMemberRecord::kSendOnlyNonMember);
  EXPECT_EQ(group->info().state, GroupState::send_only);
}

TEST_F(SendGroupStates, SendGroup_Ready_Deadline_Unused) {
  be_ready();
  EXPECT_EQ(reach_group_deadline(), Disposition::keep);
  EXPECT_TRUE(is<Ready>());
  EXPECT_TRUE(out.events.empty()) << "not in use: no request";
  EXPECT_GT(group->next_deadline(), now);
}

TEST_F(SendGroupStates, SendGroup_Ready_Deadline_Limit) {
  use_until_check();
  EXPECT_EQ(reach_group_deadline(false), Disposition::keep);
  EXPECT_TRUE(is<Ready>());
  EXPECT_TRUE(out.events.empty());
  EXPECT_GT(group->next_deadline(), now);
}

TEST_F(SendGroupStates, SendGroup_Ready_Deadline_Idle) {
  be_ready();
  const TimePoint idle = now + config.send_only_idle;
  while (reach_group_deadline() == Disposition::keep) ASSERT_LT(now, idle);
  EXPECT_EQ(now, idle);
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

TEST_F(SendGroupStates, SendGroup_Joining_Joined_Unusable) {
  parameters = group_record(mgid);
  be_joining();
  McMemberRecord other = group_record(mgid, 0xc007);
  other.mtu = 5;
  EXPECT_EQ(group->on_response(other, now).size(), 1U);
  EXPECT_TRUE(is<Missing>());
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(SendGroupStates, SendGroup_Waiting_NewParameters) {
  parameters = group_record(mgid);
  EXPECT_EQ(group->on_new_parameters(), Disposition::keep);
}

TEST_F(SendGroupStates, SendGroup_Joining_NewParameters) {
  parameters = group_record(mgid);
  be_joining();
  EXPECT_EQ(group->on_new_parameters(), Disposition::keep) << "the response decides";
}

TEST_F(SendGroupStates, SendGroup_Ready_NewParameters) {
  parameters = group_record(mgid);
  be_ready();
  EXPECT_EQ(group->on_new_parameters(), Disposition::keep) << "not for this group";
  parameters->qkey = QKey(1);
  EXPECT_EQ(group->on_new_parameters(), Disposition::erase);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(SendGroupStates, SendGroup_Confirming_NewParameters) {
  parameters = group_record(mgid);
  be_confirming();
  parameters->qkey = QKey(1);
  EXPECT_EQ(group->on_new_parameters(), Disposition::erase);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(SendGroupStates, SendGroup_Missing_NewParameters) {
  parameters = group_record(mgid);
  be_missing();
  EXPECT_EQ(group->on_new_parameters(), Disposition::erase);
  EXPECT_TRUE(out.events.empty());
}

TEST_F(SendGroupStates, SendGroup_Confirming_Packet) {
  be_confirming();
  EXPECT_FALSE(group->on_packet(packet(), now));
  EXPECT_EQ(out.sends.size(), 1U) << "stays in use";
  EXPECT_TRUE(out.events.empty());
}

TEST_F(SendGroupStates, SendGroup_Confirming_Joined) {
  be_confirming();
  EXPECT_TRUE(group->has_requested(request.id));
  EXPECT_TRUE(group->on_response(group_record(mgid, 0xc009), now).empty());
  EXPECT_TRUE(is<Ready>());
  EXPECT_EQ(handles.made.back().dlid, Lid(0xc009)) << "the group may have another LID";
  EXPECT_GT(group->next_deadline(), now);
}

TEST_F(SendGroupStates, SendGroup_Confirming_Refused) {
  for (const auto status :
       {wire::SaStatus::request_invalid, wire::SaStatus::insufficient_components}) {
    group.emplace(membership, parking, failures, mgid);
    be_confirming();
    EXPECT_TRUE(group->on_response(SaFailure(status), now).empty());
    EXPECT_TRUE(is<Missing>());
    EXPECT_EQ(emitted<LeaveRequest>().size(), 1U) << "ends the membership of the port's programs";
    forget();
  }
}

TEST_F(SendGroupStates, SendGroup_Confirming_Joined_NoHandle) {
  be_confirming();
  handles.refuses = true;
  EXPECT_TRUE(group->on_response(group_record(mgid, 0xc009), now).empty());
  EXPECT_TRUE(is<Missing>());
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(SendGroupStates, SendGroup_Confirming_RequestFailed) {
  for (const SaFailure& failure :
       {SaFailure{}, SaFailure(wire::SaStatus::busy), SaFailure(wire::SaStatus::no_resources)}) {
    group.emplace(membership, parking, failures, mgid);
    be_confirming();
    EXPECT_TRUE(group->on_response(failure, now).empty());
    EXPECT_TRUE(is<Ready>()) << "stays in use";
    EXPECT_TRUE(emitted<LeaveRequest>().empty());
    EXPECT_GT(group->next_deadline(), now);
    forget();
  }
}

TEST_F(SendGroupStates, SendGroup_Confirming_Outdated) {
  be_confirming();
  EXPECT_EQ(group->on_outdated(), Disposition::erase);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U) << "the join may still succeed";
}

TEST_F(SendGroupStates, SendGroup_Confirming_Removed) {
  be_confirming();
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
  /// An encapsulated packet to the group.
  [[nodiscard]] Frame packet_to(Ipv4Address to) {
    Frame frame = packet();
    const auto ip = frame.bytes().subspan(wire::kEncapsulationSize);
    std::ranges::fill(ip, std::uint8_t{0});
    ip[0] = 0x45;
    ip[3] = static_cast<std::uint8_t>(ip.size());
    std::ranges::copy(to.bytes(), ip.begin() + 16);
    return frame;
  }
  void send(Ipv4Address to) {
    table.send(wire::multicast_gid(to, kDefaultPKey), packet_to(to), now);
  }
  /// To a group whose packets may leave the link.
  void send(std::uint32_t low) { send(Ipv4Address(0xef000000 | low)); }
  void refuse(const JoinRequest& join) {
    EXPECT_TRUE(table.on_response({join.id, SaFailure(wire::SaStatus::request_invalid)}, now));
  }
  void grant(const JoinRequest& join, std::uint16_t mlid) {
    EXPECT_TRUE(table.on_response({join.id, group_record(join.record.mgid, mlid)}, now));
  }
  [[nodiscard]] std::size_t size() const {
    std::vector<GroupInfo> all;
    table.append_info(all);
    return all.size();
  }
  [[nodiscard]] std::vector<JoinRequest> take_requests() {
    const auto requests = emitted<JoinRequest>();
    out.events.clear();
    return requests;
  }
  const Gid routers = wire::multicast_gid(Ipv4Address(0xe0000002), kDefaultPKey);
  SendGroupTable table{membership, parking, kHashKey};
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

/// ff02::fb and ff05::fb have the same MGID, so the address does not follow from the MGID.
TEST_F(SendGroupTableTest, AGroupHasTheAddressThatPacketsToItHave) {
  const auto addresses = [this] {
    std::vector<GroupInfo> all;
    table.append_info(all);
    std::vector<std::optional<IpAddress>> found;
    for (const GroupInfo& one : all) found.push_back(one.address);
    return found;
  };
  const Ipv6Address to = *Ipv6Address::parse("ff05::abcd");
  const Gid of_ipv6 = wire::multicast_gid(to, kDefaultPKey);
  table.restore(of_ipv6);
  EXPECT_THAT(addresses(), ::testing::ElementsAre(std::nullopt));
  Frame frame = packet();
  frame.window(0, wire::kEncapsulationSize + wire::Ipv6Header::kSize);
  wire::emit_encapsulation(wire::EtherType::ipv6, frame.bytes().data());
  wire::Ipv6Header{.source = {}, .destination = to, .payload_length = 0, .next_header = 59}.emit(
      frame.bytes().subspan(wire::kEncapsulationSize));
  table.send(of_ipv6, std::move(frame), now);
  EXPECT_THAT(addresses(), ::testing::ElementsAre(IpAddress(to)));
  refuse(take_requests().at(0));  // its packet goes to the routers
  EXPECT_THAT(addresses(), ::testing::UnorderedElementsAre(
                               IpAddress(to), IpAddress(*Ipv6Address::parse("ff02::2"))));
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
  send(1);
  send(Ipv4Address(0xe00000fb));
  auto requests = take_requests();
  ASSERT_EQ(requests.size(), 2U);
  refuse(requests[0]);
  refuse(requests[1]);
  EXPECT_EQ(count(Counter::multicast_unheard), 1U) << "must not leave the link";
  requests = take_requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].record.mgid, routers);
  grant(requests[0], 0xc009);
  EXPECT_EQ(out.sends.size(), 1U);
  EXPECT_EQ(count(Counter::multicast_by_routers), 1U);
  send(1);
  EXPECT_EQ(out.sends.size(), 2U) << "the next one too, without a request";
  EXPECT_TRUE(emitted<JoinRequest>().empty());
}

TEST_F(SendGroupTableTest, OnlyTheLocalNetworkControlBlockStaysOnTheLink) {
  for (const std::uint32_t routable : {0xe0000100U, 0xe0000101U, 0xe000ffffU, 0xefffffffU}) {
    out.counters = {};
    send(Ipv4Address(routable));
    refuse(take_requests().at(0));
    EXPECT_EQ(count(Counter::multicast_by_routers), 1U) << std::hex << routable;
    table.clear(Counter::drop_link_down, false);
    out.events.clear();
  }
  out.counters = {};
  send(Ipv4Address(0xe00000ff));
  refuse(take_requests().at(0));
  EXPECT_EQ(count(Counter::multicast_by_routers), 0U);
}

TEST_F(SendGroupTableTest, WithoutRoutersPacketsAreDropped) {
  send(1);
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  EXPECT_EQ(count(Counter::multicast_unheard), 1U);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(SendGroupTableTest, NoticeCausesANewRequest) {
  send(Ipv4Address(0xe00000fb));
  EXPECT_TRUE(table.on_response({take_requests()[0].id, SaFailure{}}, now));
  send(Ipv4Address(0xe00000fb));
  EXPECT_TRUE(take_requests().empty());
  table.on_notice(wire::multicast_gid(Ipv4Address(0xe00000fb), kDefaultPKey));
  send(Ipv4Address(0xe00000fb));
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
  grant(take_requests().at(0), 0xc001);
  while (emitted<LeaveRequest>().empty()) {
    ASSERT_NE(table.next_deadline(), kNever);
    now = table.next_deadline();
    table.tick(now);
  }
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(table.next_deadline(), kNever);
  EXPECT_EQ(size(), 0U);
}

TEST_F(SendGroupTableTest, RequestsThatWereOutstandingWhenItWasClearedDoNotCount) {
  config.limits.group_requests = 2;
  for (std::uint32_t i = 0; i < 4; ++i) send(i);
  const auto before = take_requests();
  ASSERT_EQ(before.size(), 2U);
  table.clear(Counter::drop_link_down, false);
  EXPECT_EQ(count(Counter::drop_link_down), 4U);
  EXPECT_EQ(parking.used, 0U);
  for (std::uint32_t i = 0; i < 4; ++i) send(i);
  const auto after = take_requests();
  EXPECT_EQ(after.size(), 2U) << "both slots are free";
  EXPECT_FALSE(table.on_response({before[0].id, SaFailure{}}, now)) << "ignored";
  EXPECT_TRUE(take_requests().empty());
}

TEST_F(SendGroupTableTest, ClearLeavesGroupsThatItMayBeAMemberOf) {
  config.limits.group_requests = 2;
  send(1);
  grant(take_requests().at(0), 0xc001);
  send(2);
  refuse(take_requests().at(0));  // Missing; the routers are Joining
  send(3);                        // Joining
  send(4);                        // Waiting
  out.events.clear();
  table.clear(Counter::drop_link_down, true);
  std::vector<Gid> left;
  for (const LeaveRequest& leave : emitted<LeaveRequest>()) left.push_back(leave.record.mgid);
  EXPECT_EQ(left.size(), 3U);
  for (const Gid& one : {mgid_of(1), routers, mgid_of(3)}) {
    EXPECT_EQ(std::ranges::count(left, one), 1) << one.to_string();
  }
  EXPECT_EQ(size(), 0U);
}

/// One group is being confirmed, which is the only request; another one waits.
class ConfirmationTest : public SendGroupTableTest {
 protected:
  ConfirmationTest() {
    parameters = group_record(wire::broadcast_gid(kDefaultPKey));
    config.limits.group_requests = 1;
    send(1);
    grant(take_requests().at(0), 0xc001);
    now += 1s;
    send(1);
    now = table.next_deadline();
    table.tick(now);
    confirmations = take_requests();
    EXPECT_EQ(confirmations.size(), 1U);
    send(2);
    EXPECT_TRUE(take_requests().empty()) << "waits";
  }
  void expect_other_joins() {
    EXPECT_EQ(size(), 1U) << "the confirmed group is forgotten";
    const auto requests = take_requests();
    ASSERT_EQ(requests.size(), 1U) << "its slot is free";
    EXPECT_EQ(requests[0].record.mgid, mgid_of(2));
    EXPECT_FALSE(table.on_response({confirmations.at(0).id, SaFailure{}}, now));
    send(3);
    EXPECT_TRUE(take_requests().empty());
  }
  std::vector<JoinRequest> confirmations;
};

TEST_F(ConfirmationTest, ReregisterFreesTheRequest) {
  table.on_reregister();
  expect_other_joins();
}

TEST_F(ConfirmationTest, NoticeFreesTheRequest) {
  table.on_notice(mgid_of(1));
  expect_other_joins();
}

TEST_F(ConfirmationTest, NewParametersFreeTheRequest) {
  parameters->qkey = QKey(1);
  table.on_new_parameters();
  expect_other_joins();
}

TEST_F(SendGroupTableTest, ExactlyTheLimitOfGroupsIsKept) {
  config.limits.send_groups = 3;
  for (std::uint32_t i = 0; i < 3; ++i) {
    send(i);
    grant(take_requests().at(0), 0xc001);
  }
  EXPECT_EQ(count(Counter::groups_evicted), 0U);
  EXPECT_EQ(size(), 3U);
  send(3);
  EXPECT_EQ(count(Counter::groups_evicted), 1U);
  EXPECT_EQ(size(), 3U);
}

/// What groups that the host only sends to log.
class SendGroupLog : public ObjectFixture {
 protected:
  /// A new group, whose join has this result.
  void join(const wire::SaResult& result) {
    SendGroup group(dependencies, parking, failures, mgid);
    group.on_turn();
    (void)group.on_response(result, now);
  }
  [[nodiscard]] std::vector<std::string> lines_at(spdlog::level::level_enum level) const {
    std::vector<std::string> found;
    for (const auto& line : lines->last_raw()) {
      if (line.level == level) found.emplace_back(line.payload.begin(), line.payload.end());
    }
    return found;
  }

  const Gid mgid = wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey);
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger log{"link", lines};
  const GroupDependencies dependencies{config, kOwnGid, handles, out, ids, random, log, parameters};
  FailureCount failures;
};

TEST_F(SendGroupLog, RFC4391_12_FailedSendOnlyJoinIsLogged) {
  join(SaFailure(wire::SaStatus::request_denied));
  const auto warnings = lines_at(spdlog::level::warn);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(mgid.to_string() + ": send-only join: "), std::string::npos);
  EXPECT_NE(warnings[0].find(wire::name(wire::SaStatus::request_denied)), std::string::npos);
}

TEST_F(SendGroupLog, UnusableGroupIsAFailure) {
  parameters = group_record(wire::broadcast_gid(kDefaultPKey));
  auto record = group_record(mgid, 0xc007);
  record.qkey = QKey(1);
  join(record);
  ASSERT_EQ(lines_at(spdlog::level::warn).size(), 1U);
  EXPECT_NE(lines_at(spdlog::level::warn)[0].find("Q_Key"), std::string::npos);
}

TEST_F(SendGroupLog, GroupThatDoesNotExistIsNoFailure) {
  log.set_level(spdlog::level::debug);
  join(SaFailure(wire::SaStatus::insufficient_components));
  join(SaFailure(wire::SaStatus::request_invalid));
  EXPECT_TRUE(lines_at(spdlog::level::warn).empty());
  EXPECT_FALSE(lines_at(spdlog::level::debug).empty());
}

TEST_F(SendGroupLog, FailuresInARowAreLoggedWithGrowingIntervals) {
  for (int i = 0; i < 16; ++i) join(SaFailure(wire::SaStatus::request_denied));
  EXPECT_EQ(lines_at(spdlog::level::warn).size(), 5U);
  join(group_record(mgid, 0xc007));
  join(SaFailure(wire::SaStatus::request_denied));
  EXPECT_EQ(lines_at(spdlog::level::warn).size(), 6U);
}

using SendOnlyGroups = GroupObjects;

TEST_F(SendOnlyGroups, MissingSendOnlyGroupsAreRetriedAtDifferentTimes) {
  constexpr std::uint32_t kGroups = 30;
  std::set<TimePoint> retries;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    FailureCount failures;
    SendGroup group{membership, parking, failures,
                    wire::multicast_gid(Ipv4Address(0xef000000 + i), kDefaultPKey)};
    (void)group.on_packet(packet(), now);
    group.on_turn();
    (void)group.on_response(SaFailure(wire::SaStatus::request_invalid), now);
    retries.insert(group.next_deadline());
  }
  EXPECT_GT(retries.size(), kGroups / 2);
}

TEST_F(SendOnlyGroups, AWaitingSendOnlyGroupIsJoinedWhenAnotherOneHasBeen) {
  config.limits.group_requests = 1;
  for (const std::uint32_t number : {1U, 2U}) {
    const Gid mgid = wire::multicast_gid(Ipv4Address(0xef000000 + number), kDefaultPKey);
    send_groups.send(mgid, packet(), now);
  }
  const auto first = take_join();
  ASSERT_TRUE(send_groups.on_response({first.id, group_record(first.record.mgid, 0xc001)}, now));
  const auto joins = emitted<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_NE(joins[0].record.mgid, first.record.mgid);
}

}  // namespace
}  // namespace ipoib::link
