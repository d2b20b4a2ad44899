// Rows of docs/states.md, "Group".
#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <array>
#include <functional>
#include <set>

#include "tests/unit/link/group_fixture.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using wire::McMemberRecord;

class GroupStates : public ObjectFixture {
 protected:
  [[nodiscard]] std::size_t join_count() const { return emitted<JoinRequest>().size(); }
  void start(bool may_create = false) {
    if (may_create) group.set_creation(group_record(Gid{}));
    group.start();
    take_request();
  }
  void take_request() {
    ASSERT_EQ(join_count(), 1U);
    request = emitted<JoinRequest>()[0];
    forget();
  }
  bool reply(const wire::SaResult& result) { return group.on_response({request.id, result}, now); }
  bool grant_join(std::uint16_t mlid = 0xc000) { return reply(group_record(group.mgid(), mlid)); }
  void refuse_join(wire::SaStatus status = wire::SaStatus::request_invalid) {
    EXPECT_FALSE(reply(SaFailure(status)));
  }
  void be_pausing() {
    start();
    refuse_join();
    forget();
  }
  void be_pausing_without_group() {
    start();
    refuse_join(wire::SaStatus::insufficient_components);
    forget();
  }
  void be_member(bool may_create = false) {
    start(may_create);
    EXPECT_TRUE(grant_join());
    group.attach();
    forget();
  }
  void be_confirming(bool may_create = false) {
    be_member(may_create);
    group.on_reregister();
    take_request();
  }
  void be_looking() {
    be_member();
    reach_group_deadline();
    const auto requests = emitted<LookupRequest>();
    ASSERT_EQ(requests.size(), 1U);
    request.id = requests[0].id;
    forget();
  }
  void reach_group_deadline() {
    now = group.next_deadline();
    group.tick(now);
  }
  [[nodiscard]] bool is_absent() {
    return group.record() == nullptr && group.next_deadline() == kNever &&
           !group.has_requested(request.id);
  }
  void expect_not_attached() {
    group.on_attach_failed(now);
    EXPECT_EQ(group.record(), nullptr);
    EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
    EXPECT_TRUE(emitted<DetachGroup>().empty());
    EXPECT_GT(group.next_deadline(), now);
    EXPECT_NE(group.next_deadline(), kNever);
    forget();
  }
  void expect_plain_join() {
    ASSERT_EQ(join_count(), 1U);
    EXPECT_EQ(emitted<JoinRequest>()[0].components,
              McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                  McMemberRecord::kJoinState);
  }
  void expect_creating_join() {
    ASSERT_EQ(join_count(), 1U);
    // MGID, PortGID, Q_Key, MTU and its selector, TClass, P_Key, rate and its selector, SL, flow
    // label, hop limit, JoinState: bits 0 to 2, 4 to 9, 12 to 14, 16.
    EXPECT_EQ(emitted<JoinRequest>()[0].components, 0x173f7U);
  }

  Group group{membership, GroupRole::broadcast};
  JoinRequest request;
};

TEST_F(GroupStates, Group_Absent_Start) {
  group.start();
  expect_plain_join();
  const McMemberRecord record = emitted<JoinRequest>()[0].record;
  EXPECT_EQ(record.mgid, group.mgid());
  EXPECT_EQ(record.port_gid, kOwn.gid);
  EXPECT_EQ(record.join_state, McMemberRecord::kFullMember);
}

TEST_F(GroupStates, Group_Absent_Lost) {
  group.on_lost();
  EXPECT_TRUE(is_absent());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(GroupStates, Group_Absent_Leave) {
  group.leave();
  EXPECT_TRUE(is_absent());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(GroupStates, Group_Absent_Notice) {
  group.on_notice(group.mgid());
  EXPECT_TRUE(is_absent());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(GroupStates, Group_Joining_Notice) {
  start();
  group.on_notice(group.mgid());
  EXPECT_TRUE(out.events.empty());
  EXPECT_TRUE(grant_join());
}

TEST_F(GroupStates, Group_Pausing_Notice) {
  be_pausing();
  group.on_notice(group.mgid());
  expect_plain_join();
}

TEST_F(GroupStates, Group_Member_Notice) {
  config.scopes = {2};
  be_member(true);
  group.on_notice(group.mgid());
  expect_plain_join();
  EXPECT_NE(group.record(), nullptr) << "still used";
  take_request();
  refuse_join(wire::SaStatus::insufficient_components);
  expect_creating_join();
}

TEST_F(GroupStates, Group_Confirming_Notice) {
  be_confirming();
  group.on_notice(group.mgid());
  EXPECT_TRUE(out.events.empty());
  EXPECT_TRUE(grant_join());
}

TEST_F(GroupStates, Group_Joining_Joined) {
  start();
  EXPECT_TRUE(grant_join());
  ASSERT_NE(group.record(), nullptr);
  EXPECT_EQ(group.record()->mlid, Lid(0xc000));
  ASSERT_FALSE(handles.made.empty());
  EXPECT_EQ(handles.made.back().dlid, Lid(0xc000));
  ASSERT_TRUE(handles.made.back().global.has_value()) << "multicast has a GRH";
  EXPECT_EQ(handles.made.back().global->dgid, group.mgid());
  group.attach();
  EXPECT_EQ(emitted<AttachGroup>(), (std::vector{AttachGroup{group.mgid(), Lid(0xc000)}}));
}

TEST_F(GroupStates, Group_Joining_Joined_NoHandle) {
  start();
  handles.refuses = true;
  EXPECT_FALSE(grant_join());
  EXPECT_EQ(group.record(), nullptr);
  EXPECT_GT(group.next_deadline(), now);
  EXPECT_NE(group.next_deadline(), kNever);
}

TEST_F(GroupStates, Group_Joining_Joined_Unusable) {
  start();
  McMemberRecord other = group_record(group.mgid());
  other.pkey = PKey(0x8012);
  EXPECT_FALSE(reply(other));
  EXPECT_EQ(group.record(), nullptr);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U) << "or it would keep that group alive";
  EXPECT_EQ(count(Counter::join_failures), 1U);
  EXPECT_GT(group.next_deadline(), now);
  EXPECT_NE(group.next_deadline(), kNever);
}

TEST_F(GroupStates, Group_Joining_Refused_NoGroup_OtherScope) {
  config.scopes = {2, 5, 8};
  start(true);
  for (const std::uint8_t scope : {std::uint8_t{5}, std::uint8_t{8}}) {
    refuse_join(wire::SaStatus::insufficient_components);
    expect_plain_join();
    EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, wire::broadcast_gid(kDefaultPKey, scope));
    EXPECT_EQ(emitted<JoinRequest>()[0].record.scope, scope);
    take_request();
  }
  refuse_join(wire::SaStatus::insufficient_components);
  expect_creating_join();
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, wire::broadcast_gid(kDefaultPKey, 2));
}

TEST_F(GroupStates, Group_Joining_Refused_NoGroup) {
  config.scopes = {2};
  start(true);
  refuse_join(wire::SaStatus::insufficient_components);
  expect_creating_join();
  // If the creation fails too, it pauses and starts with a plain join again.
  take_request();
  refuse_join(wire::SaStatus::insufficient_components);
  EXPECT_EQ(join_count(), 0U);
  reach_group_deadline();
  expect_plain_join();
}

TEST_F(GroupStates, Group_Joining_Refused) {
  start(true);
  refuse_join(wire::SaStatus::request_denied);
  EXPECT_EQ(join_count(), 0U);
  EXPECT_EQ(count(Counter::join_failures), 1U);
  EXPECT_GE(group.next_deadline(), now + config.join_backoff.first * 3 / 4);
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4);
}

TEST_F(GroupStates, Group_Joining_Reregister) {
  start();
  group.on_reregister();
  expect_plain_join();
  EXPECT_FALSE(grant_join()) << "response to the old request";
  EXPECT_EQ(group.record(), nullptr);
}

TEST_F(GroupStates, Group_Joining_Lost) {
  start();
  group.on_lost();
  EXPECT_TRUE(is_absent());
  EXPECT_FALSE(grant_join());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(GroupStates, Group_Joining_Leave) {
  start();
  group.leave();
  EXPECT_TRUE(is_absent());
  ASSERT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>()[0].record.mgid, group.mgid());
}

TEST_F(GroupStates, Group_Pausing_Deadline) {
  be_pausing();
  Duration longest{};
  for (int refusals = 1; refusals < 9; ++refusals) {
    const TimePoint before = now;
    reach_group_deadline();
    longest = std::max(longest, now - before);
    expect_plain_join();
    take_request();
    refuse_join();
    forget();
  }
  EXPECT_GE(longest, config.join_backoff.last * 3 / 4);
  EXPECT_LE(longest, config.join_backoff.last * 5 / 4);
}

TEST_F(GroupStates, Group_Pausing_Reregister) {
  be_pausing();
  group.on_reregister();
  expect_plain_join();
}

TEST_F(GroupStates, Group_Pausing_Lost) {
  be_pausing();
  group.on_lost();
  EXPECT_TRUE(is_absent());
}

TEST_F(GroupStates, Group_Pausing_Leave) {
  be_pausing();
  group.leave();
  EXPECT_TRUE(is_absent());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(GroupStates, Group_Member_Deadline) {
  be_member();
  reach_group_deadline();
  EXPECT_EQ(join_count(), 0U);
  ASSERT_EQ(emitted<LookupRequest>().size(), 1U);
  const auto requests = emitted<LookupRequest>()[0];
  EXPECT_EQ(requests.components, McMemberRecord::kMgid | McMemberRecord::kPortGid);
  EXPECT_EQ(requests.record.mgid, group.mgid());
  EXPECT_EQ(requests.record.port_gid, kOwn.gid);
  EXPECT_NE(group.record(), nullptr) << "still used";
}

TEST_F(GroupStates, Group_Member_Silence) {
  group.set_silence(10s);
  be_member();
  EXPECT_GE(group.next_deadline(), now + config.membership_check * 3 / 4) << "never heard";
  group.on_heard(now);
  EXPECT_LE(group.next_deadline(), now + 10s * 5 / 4);
  now += 7s;
  group.on_heard(now);
  EXPECT_GE(group.next_deadline(), now + 10s * 3 / 4);
  group.tick(now);
  EXPECT_TRUE(out.events.empty());
  reach_group_deadline();
  EXPECT_EQ(emitted<LookupRequest>().size(), 1U);
}

TEST_F(GroupStates, Group_Member_Deadline_Refused) {
  be_confirming();
  refuse_join();
  forget();
  reach_group_deadline();
  expect_plain_join();
  EXPECT_TRUE(emitted<LookupRequest>().empty());
}

TEST_F(GroupStates, Group_Member_Reregister) {
  be_member();
  group.on_reregister();
  expect_plain_join();
  EXPECT_NE(group.record(), nullptr);
  EXPECT_TRUE(emitted<DetachGroup>().empty());
}

TEST_F(GroupStates, Group_Member_NotAttached) {
  be_member();
  expect_not_attached();
  Duration longest{};
  for (int failures = 2; failures < 9; ++failures) {
    const TimePoint before = now;
    reach_group_deadline();
    longest = std::max(longest, now - before);
    take_request();
    EXPECT_TRUE(grant_join());
    group.attach();
    EXPECT_EQ(emitted<AttachGroup>().size(), 1U) << "retry";
    forget();
    expect_not_attached();
  }
  EXPECT_GE(longest, config.join_backoff.last * 3 / 4);
}

TEST_F(GroupStates, Group_LookingUp_NotAttached) {
  be_looking();
  expect_not_attached();
}

TEST_F(GroupStates, Group_Confirming_NotAttached) {
  be_confirming();
  expect_not_attached();
}

TEST_F(GroupStates, Group_Member_Lost) {
  be_member();
  group.on_lost();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>(), (std::vector{DetachGroup{group.mgid(), Lid(0xc000)}}));
  EXPECT_TRUE(emitted<LeaveRequest>().empty());
}

TEST_F(GroupStates, Group_Member_Leave) {
  be_member();
  group.leave();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  ASSERT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>()[0].record.join_state, McMemberRecord::kFullMember);
}

TEST_F(GroupStates, Group_LookingUp_Found) {
  be_looking();
  EXPECT_FALSE(grant_join());
  EXPECT_EQ(out.counters[Counter::memberships_lost], 0U);
  EXPECT_NE(group.record(), nullptr) << "still used";
  expect_plain_join();
}

TEST_F(GroupStates, Group_LookingUp_Lost) {
  be_looking();
  refuse_join(wire::SaStatus::no_records);
  EXPECT_EQ(out.counters[Counter::memberships_lost], 1U);
  EXPECT_NE(group.record(), nullptr) << "still used";
  expect_plain_join();
  take_request();
  EXPECT_TRUE(grant_join());
}

TEST_F(GroupStates, Group_LookingUp_Found_Lesser) {
  be_looking();
  McMemberRecord lesser = group_record(group.mgid(), 0xc000);
  lesser.port_gid = kOwn.gid;
  lesser.join_state = McMemberRecord::kSendOnlyNonMember;
  EXPECT_FALSE(reply(lesser));
  EXPECT_EQ(out.counters[Counter::memberships_lost], 1U);
  EXPECT_NE(group.record(), nullptr) << "still used";
  expect_plain_join();
  take_request();
  EXPECT_TRUE(reply(lesser)) << "a join succeeds whatever the JoinState";
  EXPECT_EQ(join_count(), 0U);
}

TEST_F(GroupStates, Group_LookingUp_Refused) {
  be_looking();
  refuse_join(wire::SaStatus::request_invalid);
  EXPECT_EQ(out.counters[Counter::memberships_lost], 0U);
  EXPECT_NE(group.record(), nullptr);
  expect_plain_join();
}

TEST_F(GroupStates, Group_LookingUp_RequestFailed) {
  be_looking();
  EXPECT_FALSE(reply(SaFailure{}));
  EXPECT_NE(group.record(), nullptr) << "stays in use";
  EXPECT_TRUE(out.events.empty());
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4);
  reach_group_deadline();
  expect_plain_join();
}

TEST_F(GroupStates, Group_LookingUp_Reregister) {
  be_looking();
  group.on_reregister();
  expect_plain_join();
  EXPECT_FALSE(grant_join()) << "response to the old request";
}

TEST_F(GroupStates, Group_LookingUp_Notice) {
  be_looking();
  group.on_notice(group.mgid());
  expect_plain_join();
}

TEST_F(GroupStates, Group_LookingUp_Leave) {
  be_looking();
  group.leave();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(GroupStates, Group_LookingUp_PortLost) {
  be_looking();
  group.on_lost();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  EXPECT_TRUE(emitted<LeaveRequest>().empty());
}

TEST_F(GroupStates, Group_Confirming_Joined) {
  be_confirming();
  EXPECT_TRUE(grant_join());
  group.attach();
  EXPECT_TRUE(out.events.empty()) << "nothing has changed";
  EXPECT_NE(group.next_deadline(), kNever);
}

TEST_F(GroupStates, Group_Confirming_Joined_Moved) {
  be_confirming();
  EXPECT_TRUE(grant_join(0xc005));
  group.attach();
  EXPECT_EQ(emitted<AttachGroup>(), (std::vector{AttachGroup{group.mgid(), Lid(0xc005)}}));
  EXPECT_EQ(emitted<DetachGroup>(), (std::vector{DetachGroup{group.mgid(), Lid(0xc000)}}));
  EXPECT_EQ(handles.made.back().dlid, Lid(0xc005));
}

TEST_F(GroupStates, Group_Confirming_Joined_Unusable) {
  be_confirming();
  McMemberRecord other = group_record(group.mgid());
  other.pkey = PKey(0x8012);
  EXPECT_FALSE(reply(other));
  EXPECT_EQ(group.record(), nullptr);
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(GroupStates, Group_Confirming_Refused_NoGroup_OtherScope) {
  config.scopes = {2, 5, 8};
  be_confirming(true);
  for (const std::uint8_t scope : std::array<std::uint8_t, 2>{5, 8}) {
    refuse_join(wire::SaStatus::insufficient_components);
    expect_plain_join();
    take_request();
    EXPECT_EQ(request.record.mgid, wire::broadcast_gid(kDefaultPKey, scope));
    ASSERT_NE(group.record(), nullptr) << "still used";
    EXPECT_EQ(group.mgid(), wire::broadcast_gid(kDefaultPKey));
  }
  refuse_join(wire::SaStatus::insufficient_components);
  expect_creating_join();
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, group.mgid());
}

TEST_F(GroupStates, Group_Confirming_Joined_OtherScope) {
  be_confirming();
  const Gid before = group.mgid();
  refuse_join(wire::SaStatus::insufficient_components);
  take_request();
  const Gid found = wire::broadcast_gid(kDefaultPKey, 5);
  EXPECT_FALSE(reply(group_record(found)));
  EXPECT_EQ(group.record(), nullptr) << "the link has to come up again";
  EXPECT_NE(group.waiting_for().find("has another scope"), std::string::npos);
  EXPECT_EQ(group.mgid(), found);
  EXPECT_EQ(emitted<DetachGroup>().at(0).mgid, before);
  ASSERT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>()[0].record.mgid, before);
  forget();
  reach_group_deadline();
  take_request();
  EXPECT_EQ(request.record.mgid, found);
}

TEST_F(GroupStates, Group_Confirming_Refused_NoGroup) {
  config.scopes = {2};
  be_confirming(true);
  refuse_join(wire::SaStatus::insufficient_components);
  expect_creating_join();
  EXPECT_NE(group.record(), nullptr);
}

TEST_F(GroupStates, Group_Confirming_Refused) {
  be_confirming();
  refuse_join();
  EXPECT_NE(group.record(), nullptr) << "stays in use";
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4);
  reach_group_deadline();
  expect_plain_join();
}

TEST_F(GroupStates, Group_Confirming_Reregister) {
  be_confirming();
  group.on_reregister();
  expect_plain_join();
  EXPECT_FALSE(grant_join()) << "response to the old request";
}

TEST_F(GroupStates, Group_Confirming_Lost) {
  be_confirming();
  group.on_lost();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
}

TEST_F(GroupStates, Group_Confirming_Leave) {
  be_confirming();
  group.leave();
  EXPECT_TRUE(is_absent());
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

/// A group that is not the broadcast group, whose parameters are `parameters`.
class OtherGroupStates : public GroupStates {
 protected:
  OtherGroupStates() { parameters = group_record(broadcast.mgid()); }
  void start_other() {
    other.start();
    take_request();
  }
  [[nodiscard]] bool grant(const McMemberRecord& record) {
    return other.on_response({request.id, record}, now);
  }
  void be_other_member() {
    start_other();
    ASSERT_TRUE(grant(group_record(other.mgid(), 0xc001)));
    other.attach();
    forget();
  }
  void be_other_confirming() {
    be_other_member();
    other.on_reregister();
    take_request();
  }
  void change_parameters() {
    parameters->mtu = 5;
    other.on_new_parameters(now);
  }
  void expect_given_up() {
    EXPECT_EQ(other.record(), nullptr);
    EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
    EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
    EXPECT_EQ(join_count(), 0U) << "so that all members can leave";
    EXPECT_LE(other.next_deadline(), now + config.join_backoff.first * 5 / 4);
    forget();
    now = other.next_deadline();
    other.tick(now);
    take_request();
    EXPECT_FALSE(
        other.on_response({request.id, SaFailure(wire::SaStatus::insufficient_components)}, now));
    expect_creating_join();
    EXPECT_EQ(emitted<JoinRequest>()[0].record.mtu, 5);
  }

  Group broadcast{membership, GroupRole::broadcast};
  Group other{membership, GroupRole::multicast,
              wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey)};
};

TEST_F(OtherGroupStates, Group_Absent_NewParameters) {
  change_parameters();
  EXPECT_TRUE(other.is_absent());
  EXPECT_TRUE(out.events.empty());
}

TEST_F(OtherGroupStates, Group_Joining_NewParameters) {
  start_other();
  change_parameters();
  expect_plain_join();
  EXPECT_FALSE(grant(group_record(other.mgid()))) << "response to the old request";
  take_request();
  EXPECT_FALSE(grant(group_record(other.mgid()))) << "the group has the old MTU";
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
}

TEST_F(OtherGroupStates, Group_Pausing_NewParameters) {
  start_other();
  EXPECT_FALSE(other.on_response({request.id, SaFailure(wire::SaStatus::request_invalid)}, now));
  forget();
  change_parameters();
  expect_plain_join();
}

TEST_F(OtherGroupStates, Group_Member_NewParameters) {
  be_other_member();
  change_parameters();
  expect_given_up();
}

TEST_F(OtherGroupStates, Group_Member_NewParameters_Same) {
  be_other_member();
  parameters->mlid = Lid(0xc099);
  other.on_new_parameters(now);
  EXPECT_NE(other.record(), nullptr);
  EXPECT_TRUE(out.events.empty());
}

TEST_F(OtherGroupStates, Group_LookingUp_NewParameters) {
  be_other_member();
  now = other.next_deadline();
  other.tick(now);
  forget();
  change_parameters();
  expect_given_up();
}

TEST_F(OtherGroupStates, Group_Confirming_NewParameters) {
  be_other_confirming();
  change_parameters();
  expect_given_up();
}

using OtherGroupTest = OtherGroupStates;

TEST_F(OtherGroupTest, EachParameterMustBeThatOfTheBroadcastGroup) {
  const std::function<void(McMemberRecord&)> changes[]{
      [](McMemberRecord& r) { r.qkey = QKey(1); }, [](McMemberRecord& r) { r.mtu = 5; },
      [](McMemberRecord& r) { r.pkey = PKey(0x8012); }};
  start_other();
  for (const auto& change : changes) {
    McMemberRecord record = group_record(other.mgid());
    change(record);
    EXPECT_FALSE(grant(record));
    EXPECT_EQ(other.record(), nullptr);
    EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
    forget();
    now = other.next_deadline();
    other.tick(now);
    take_request();
  }
  EXPECT_TRUE(grant(group_record(other.mgid())));
}

TEST_F(OtherGroupTest, EachChangedParameterRenewsTheMembership) {
  const std::function<void(McMemberRecord&)> changes[]{[](McMemberRecord& r) { r.qkey = QKey(1); },
                                                       [](McMemberRecord& r) { r.mtu = 5; },
                                                       [](McMemberRecord& r) { r.rate = 6; },
                                                       [](McMemberRecord& r) { r.sl = ServiceLevel(1); },
                                                       [](McMemberRecord& r) { r.flow_label = 1; },
                                                       [](McMemberRecord& r) { r.hop_limit = 1; },
                                                       [](McMemberRecord& r) { r.traffic_class = 1; }};
  for (const auto& change : changes) {
    be_other_member();
    const auto before = parameters;
    change(*parameters);
    other.on_new_parameters(now);
    EXPECT_EQ(other.record(), nullptr);
    parameters = before;
    other.leave();
    forget();
  }
}

TEST_F(OtherGroupTest, CreatingJoinHasExactlyTheseComponents) {
  parameters->hop_limit = 64;
  parameters->traffic_class = 3;
  parameters->flow_label = 0x12345;
  parameters->sl = ServiceLevel(5);
  start_other();
  EXPECT_FALSE(
      other.on_response({request.id, SaFailure(wire::SaStatus::insufficient_components)}, now));
  ASSERT_EQ(join_count(), 1U);
  const JoinRequest join = emitted<JoinRequest>()[0];
  EXPECT_EQ(join.components,
            McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kPKey |
                McMemberRecord::kJoinState | McMemberRecord::kQKey | McMemberRecord::kTrafficClass |
                McMemberRecord::kFlowLabel | McMemberRecord::kSl | McMemberRecord::kHopLimit |
                McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
                McMemberRecord::kRateSelector | McMemberRecord::kRate);
  McMemberRecord expected = *parameters;
  expected.mgid = other.mgid();
  expected.port_gid = kOwn.gid;
  expected.mlid = Lid();
  expected.join_state = McMemberRecord::kFullMember;
  expected.scope = 2;
  EXPECT_EQ(join.record, expected);
}

TEST_F(OtherGroupTest, OnlyTheBroadcastGroupIsCheckedAfterSilence) {
  other.set_silence(1s);
  be_other_member();
  (void)other.on_heard(now);
  EXPECT_GE(other.next_deadline(), now + config.membership_check * 3 / 4);
}

using GroupTest = GroupStates;

TEST_F(GroupTest, RefusedCreationIsNotRepeatedAtOnce) {
  config.scopes = {2};
  be_confirming(true);
  refuse_join(wire::SaStatus::insufficient_components);
  take_request();
  refuse_join(wire::SaStatus::insufficient_components);
  EXPECT_EQ(join_count(), 0U);
  EXPECT_NE(group.record(), nullptr) << "stays in use";
  EXPECT_GE(group.next_deadline(), now + config.join_backoff.first * 3 / 4);
  reach_group_deadline();
  expect_plain_join();
}

TEST_F(GroupTest, SecondReregisterWhileConfirmingSendsANewRequest) {
  be_confirming();
  group.on_reregister();
  take_request();
  group.on_reregister();
  EXPECT_FALSE(grant_join()) << "response to an old request";
  take_request();
  EXPECT_TRUE(grant_join());
}

TEST_F(GroupTest, SetUpThatFailsAgainAndAgainIsRetriedWithGrowingPauses) {
  start();
  Duration longest{};
  for (int failures = 1; failures < 9; ++failures) {
    EXPECT_EQ(request.record.mgid, wire::broadcast_gid(kDefaultPKey, 2)) << "it is known";
    EXPECT_TRUE(grant_join());
    group.on_lost();  // the link goes down first
    group.on_setup_failed("no queue pair", now);
    forget();
    const TimePoint before = now;
    reach_group_deadline();
    EXPECT_LE(now - before, config.join_backoff.after(static_cast<unsigned>(failures)) * 5 / 4);
    longest = std::max(longest, now - before);
    take_request();
  }
  EXPECT_GE(longest, config.join_backoff.last * 3 / 4);
  EXPECT_LE(longest, config.join_backoff.last * 5 / 4);
  // Later the pauses begin with the shortest one.
  group.on_lost();
  now += 1min;
  start();
  EXPECT_TRUE(grant_join());
  group.on_lost();
  group.on_setup_failed("no queue pair", now);
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4);
}

TEST_F(GroupTest, SuccessfulCheckForgetsFailedAttachments) {
  be_member();
  for (int i = 0; i < 5; ++i) {
    group.on_attach_failed(now);
    forget();
    reach_group_deadline();
    take_request();
    EXPECT_TRUE(grant_join());
    group.attach();
    forget();
  }
  group.on_reregister();
  take_request();
  EXPECT_TRUE(grant_join());
  forget();
  group.on_attach_failed(now);
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4);
  group.leave();
  start();
  EXPECT_TRUE(grant_join());
  group.on_attach_failed(now);
  EXPECT_LE(group.next_deadline(), now + config.join_backoff.first * 5 / 4) << "after a leave, too";
}

TEST_F(GroupTest, RetriesAreOneRequestEachEveryOtherInTheFirstScope) {
  config.scopes = {2, 5, 14};
  start();
  std::vector<std::uint8_t> scopes;
  for (int i = 0; i < 6; ++i) {
    refuse_join(wire::SaStatus::insufficient_components);
    EXPECT_EQ(join_count(), 0U) << "pauses";
    reach_group_deadline();
    take_request();
    scopes.push_back(wire::scope_of(request.record.mgid));
  }
  EXPECT_EQ(scopes, (std::vector<std::uint8_t>{5, 2, 14, 2, 5, 2}));
}

TEST_F(GroupTest, AnotherRefusalDoesNotMeanThatTheGroupHasAnotherScope) {
  start(true);
  const std::array<wire::SaResult, 3> failures{SaFailure(wire::SaStatus::request_denied),
                                               SaFailure(wire::SaStatus::busy), SaFailure{}};
  for (const wire::SaResult& failure : failures) {
    EXPECT_FALSE(reply(failure));
    EXPECT_EQ(join_count(), 0U);
    reach_group_deadline();
    take_request();
    EXPECT_EQ(request.record.mgid, wire::broadcast_gid(kDefaultPKey, 2));
  }
}

TEST_F(GroupTest, GroupThatWasNotAttachedIsJoinedInItsScope) {
  be_pausing_without_group();
  reach_group_deadline();
  take_request();
  const Gid found = wire::broadcast_gid(kDefaultPKey, 5);
  ASSERT_EQ(request.record.mgid, found);
  for (int failures = 1; failures < 4; ++failures) {
    EXPECT_TRUE(grant_join());
    group.on_attach_failed(now);
    forget();
    reach_group_deadline();
    take_request();
    EXPECT_EQ(request.record.mgid, found);
  }
}

TEST_F(GroupTest, ReportNamesTheScopeOfTheBroadcastGroup) {
  be_pausing();
  const Gid reported = wire::broadcast_gid(kDefaultPKey, 8);
  EXPECT_TRUE(group.may_be(reported));
  EXPECT_FALSE(group.may_be(wire::broadcast_gid(kDefaultPKey, 9))) << "not one of the settings";
  group.on_notice(reported);
  expect_plain_join();
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, reported);
  take_request();
  EXPECT_TRUE(grant_join());
  EXPECT_FALSE(group.may_be(wire::broadcast_gid(kDefaultPKey, 2))) << "it is known now";
}

TEST_F(GroupTest, SilenceThatLastsIsCheckedMoreRarely) {
  constexpr Duration kFirst = 4s;
  group.set_silence(kFirst);
  be_member();
  group.on_heard(now);
  const TimePoint heard = now;
  Duration pause{};
  while (now < heard + 1h) {
    const TimePoint before = now;
    reach_group_deadline();
    pause = now - before;
    EXPECT_GE(pause, kFirst * 3 / 4);
    EXPECT_LE(pause, kFirst * 6 * 5 / 4) << "a loss is noticed";
    const auto lookups = emitted<LookupRequest>();
    ASSERT_EQ(lookups.size(), 1U);
    forget();
    (void)group.on_response({lookups[0].id, SaFailure(wire::SaStatus::no_records)}, now);
    take_request();
    EXPECT_TRUE(grant_join());
    forget();
  }
  EXPECT_GE(pause, kFirst * 6 * 3 / 4) << "few requests";
}

TEST_F(GroupTest, RecordOfAnotherGroupIsAFailure) {
  start();
  EXPECT_FALSE(reply(group_record(wire::multicast_gid(kAllNodes, kDefaultPKey))));
  EXPECT_EQ(group.record(), nullptr);
}

TEST_F(GroupTest, ReportsWhatItWaitsFor) {
  start();
  EXPECT_NE(group.waiting_for().find("response to the join"), std::string::npos);
  refuse_join(wire::SaStatus::request_denied);
  EXPECT_NE(group.waiting_for().find("request denied"), std::string::npos) << group.waiting_for();
}

TEST_F(GroupTest, DropsDatagramsBeforeItIsJoined) {
  group.send(packet(), out);
  EXPECT_TRUE(out.sends.empty());
  EXPECT_EQ(count(Counter::drop_multicast_not_joined), 1U);
}

TEST_F(GroupTest, SearchThatFindsNothingKeepsTheMembership) {
  config.scopes = {2, 5};
  be_confirming();
  refuse_join(wire::SaStatus::insufficient_components);
  take_request();
  refuse_join(wire::SaStatus::insufficient_components);
  EXPECT_EQ(join_count(), 0U) << "pauses";
  EXPECT_NE(group.record(), nullptr);
  reach_group_deadline();
  take_request();
  EXPECT_EQ(request.record.mgid, group.mgid());
}

/// The join in the other scope may still succeed.
TEST_F(GroupTest, SearchThatIsAbandonedIsLeft) {
  const Gid elsewhere = wire::broadcast_gid(kDefaultPKey, 5);
  const auto left = [&] {
    std::vector<Gid> all;
    for (const LeaveRequest& leave : emitted<LeaveRequest>()) all.push_back(leave.record.mgid);
    return all;
  };
  be_confirming();
  refuse_join(wire::SaStatus::insufficient_components);
  forget();
  group.on_reregister();
  EXPECT_EQ(left(), std::vector{elsewhere});
  take_request();
  EXPECT_EQ(request.record.mgid, group.mgid());
  refuse_join(wire::SaStatus::insufficient_components);
  forget();
  group.leave();
  EXPECT_EQ(left(), (std::vector{elsewhere, group.mgid()}));
}

class GroupLog : public ObjectFixture {
 protected:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger log{"link", lines};
  Group group{GroupDependencies{config, kOwnGid, handles, out, ids, random, log, parameters},
              GroupRole::broadcast};
};

TEST_F(GroupLog, RFC4391_12_FailedJoinIsLogged) {
  group.start();
  (void)group.on_response(
      {emitted<JoinRequest>().at(0).id, SaFailure(wire::SaStatus::request_invalid)}, now);
  ASSERT_EQ(lines->last_raw().size(), 1U);
  const std::string line = lines->last_formatted().front();
  EXPECT_EQ(lines->last_raw().front().level, spdlog::level::warn);
  EXPECT_NE(line.find("broadcast group " + group.mgid().to_string() + ": join: "),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(wire::name(wire::SaStatus::request_invalid)), std::string::npos) << line;
}

TEST_F(GroupLog, AnInvalidRecordIsLoggedAsAFailedJoin) {
  group.start();
  (void)group.on_response(
      {emitted<JoinRequest>().at(0).id, group_record(wire::broadcast_gid(PKey(0x8001)))}, now);
  ASSERT_EQ(lines->last_raw().size(), 1U);
  EXPECT_THAT(lines->last_formatted().front(),
              testing::HasSubstr(
                  "join: the SA's record is of another group, or has an unknown MTU: restart "
                  "or update the subnet manager"));
  EXPECT_EQ(count(Counter::join_failures), 1U);
}

TEST_F(GroupLog, RFC4391_12_FailedLookupIsLogged) {
  group.start();
  ASSERT_TRUE(
      group.on_response({emitted<JoinRequest>().at(0).id, group_record(group.mgid())}, now));
  now = group.next_deadline();
  group.tick(now);
  (void)group.on_response({emitted<LookupRequest>().at(0).id, SaFailure()}, now);
  ASSERT_EQ(lines->last_raw().size(), 1U);
  EXPECT_EQ(lines->last_raw().front().level, spdlog::level::warn);
  const std::string line = lines->last_formatted().front();
  EXPECT_NE(line.find(": membership check: "), std::string::npos) << line;
  EXPECT_EQ(line.find("join"), std::string::npos) << line;
  EXPECT_EQ(count(Counter::join_failures), 0U);
}

TEST_F(GroupLog, RepeatedFailuresAreLoggedWithGrowingIntervals) {
  group.start();
  for (int i = 0; i < 16; ++i) {
    const SaFailure refusal(SaFailure::Kind::local, "no response");
    (void)group.on_response({emitted<JoinRequest>().at(0).id, refusal}, now);
    out.events.clear();
    now = group.next_deadline();
    group.tick(now);
  }
  EXPECT_EQ(count(Counter::join_failures), 16U);
  EXPECT_EQ(lines->last_raw().size(), 5U) << "the 1st, 2nd, 4th, 8th and 16th";
  EXPECT_NE(lines->last_formatted().front().find("no response"), std::string::npos);
}

using SingleGroup = GroupObjects;

TEST_F(SingleGroup, SilenceCountsFromTheStartOfTheLink) {
  Group group{membership, GroupRole::broadcast};
  group.set_silence(4s);
  group.start();
  grant_join(group);
  group.on_heard(now);
  EXPECT_LE(group.next_deadline(), now + 5s);
  group.on_lost();
  forget();
  group.start();
  grant_join(group);
  EXPECT_GE(group.next_deadline(), now + config.membership_check * 3 / 4)
      << "no other port has been heard on this link";
}

TEST_F(SingleGroup, AReportDoesNotEndTheBackOff) {
  Group group{membership, GroupRole::multicast, wire::multicast_gid(kAllNodes, kDefaultPKey)};
  group.start();
  for (int i = 0; i < 3; ++i) {
    refuse_join(group, wire::SaStatus::request_denied);
    if (i < 2) reach_deadline_of(group);
  }
  group.on_notice(group.mgid());
  refuse_join(group, wire::SaStatus::request_denied);
  EXPECT_GE(group.next_deadline() - now, config.join_backoff.after(4) * 3 / 4);
}

TEST_F(SingleGroup, AGroupIsSettledOnceItHasBeenRefused) {
  Group group{membership, GroupRole::all_nodes, wire::multicast_gid(kAllNodes, kDefaultPKey)};
  EXPECT_FALSE(group.is_settled());
  group.start();
  EXPECT_FALSE(group.is_settled());
  refuse_join(group, wire::SaStatus::request_denied);
  EXPECT_TRUE(group.is_settled());
  reach_deadline_of(group);
  EXPECT_TRUE(group.is_settled()) << "while it is retried, too";
  grant_join(group);
  EXPECT_TRUE(group.is_settled());
}

TEST_F(SingleGroup, OnlyADisclosedStateOfThisPortIsALoss) {
  wire::McMemberRecord found = group_record(wire::broadcast_gid(kDefaultPKey));
  found.port_gid = kOwn.gid;
  found.join_state = 0;
  EXPECT_EQ(losses_after_finding(found), 0U) << "the SA does not disclose it";
  found.join_state = wire::McMemberRecord::kSendOnlyNonMember;
  EXPECT_EQ(losses_after_finding(found), 1U);
  found.port_gid = kPeerHw.gid;
  EXPECT_EQ(losses_after_finding(found), 0U) << "of another port";
}

TEST_F(SingleGroup, AGroupThatCannotBeUsedIsLeft) {
  Group group{membership, GroupRole::broadcast};
  group.start();
  handles.refuses = true;
  const auto join = take_join();
  EXPECT_FALSE(group.on_response({join.id, group_record(group.mgid())}, now));
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(count(Counter::address_handle_refusals), 1U);
}

TEST_F(SingleGroup, AGroupWithAnInvalidMtuIsNotJoined) {
  for (const std::uint8_t mtu : {std::uint8_t{0}, std::uint8_t{6}}) {
    Group group{membership, GroupRole::broadcast};
    group.start();
    wire::McMemberRecord record = group_record(group.mgid());
    record.mtu = mtu;
    EXPECT_FALSE(group.on_response({take_join().id, record}, now)) << int{mtu};
    EXPECT_EQ(group.record(), nullptr);
    forget();
  }
}

TEST_F(SingleGroup, ChecksOfGroupsThatWereJoinedTogetherAreSpread) {
  constexpr std::uint32_t kGroups = 30;
  std::set<TimePoint> checks;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    Group group{membership, GroupRole::multicast,
                wire::multicast_gid(Ipv4Address(0xef000000 + i), kDefaultPKey)};
    group.start();
    grant_join(group);
    checks.insert(group.next_deadline());
    EXPECT_GE(group.next_deadline() - now, config.membership_check * 3 / 4);
    EXPECT_LE(group.next_deadline() - now, config.membership_check * 5 / 4);
  }
  EXPECT_GT(checks.size(), kGroups / 2);
}

TEST_F(SingleGroup, AMissingGroupIsCreatedIfTheSaHasNoRecordOfIt) {
  config.scopes = {2};
  Group group{membership, GroupRole::broadcast};
  group.set_creation(group_record(Gid{}));
  group.start();
  refuse_join(group, wire::SaStatus::no_records);
  const auto creating = take_join();
  EXPECT_NE(creating.components & wire::McMemberRecord::kQKey, 0U);
}

TEST_F(SingleGroup, JoinsAreCountedAndAreThoseOfAFullMember) {
  config.pkey = PKey(0x0012);  // of a limited member
  parameters = group_record(Gid{});
  parameters->pkey = config.pkey;
  parameters->proxy_join = true;
  Group group{membership, GroupRole::multicast, wire::multicast_gid(kAllNodes, config.pkey)};
  group.start();
  EXPECT_EQ(count(Counter::join_requests), 1U);
  const auto join = take_join();
  EXPECT_EQ(join.record.pkey, PKey(0x8012)) << "RFC 4391, 4: the full-membership P_Key";
  EXPECT_FALSE(
      group.on_response({join.id, SaFailure(wire::SaStatus::insufficient_components)}, now));
  EXPECT_EQ(count(Counter::join_requests), 1U);
  const auto creating = take_join();
  EXPECT_EQ(creating.record.pkey, PKey(0x8012));
  EXPECT_FALSE(creating.record.proxy_join);
  EXPECT_NE(creating.components & wire::McMemberRecord::kQKey, 0U);
}

TEST_F(SingleGroup, DatagramsToAGroupHaveItsGlobalRoute) {
  Group group{membership, GroupRole::broadcast};
  group.start();
  wire::McMemberRecord record = group_record(group.mgid());
  record.flow_label = 0x12345;
  record.hop_limit = 9;
  record.traffic_class = 5;
  EXPECT_TRUE(group.on_response({take_join().id, record}, now));
  ASSERT_FALSE(handles.made.empty());
  const auto& route = handles.made.back().global;
  ASSERT_TRUE(route);
  EXPECT_EQ(route->flow_label, 0x12345U);
  EXPECT_EQ(route->hop_limit, 9);
  EXPECT_EQ(route->traffic_class, 5);
}

}  // namespace
}  // namespace ipoib::link
