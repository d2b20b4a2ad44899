// A link that is down, shut down, or set up again, and its send-only groups then.
#include "tests/unit/link/link_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {
namespace {

class LinkTest : public LinkFixture {
 protected:
  static constexpr Ipv4Address kGroup{0xef010203};

  [[nodiscard]] static Gid group() { return wire::multicast_gid(kGroup, kDefaultPKey); }
  /// Makes the link a sender to the group.
  void send_to_group() {
    send(kGroup);
    grant_joins();
    ASSERT_EQ(link->sends().size(), 1U);
    forget();
  }
};

TEST_F(LinkTest, EachPacketIsCountedWhileTheLinkIsDown) {
  make();
  std::vector<Frame> batch;
  for (int i = 0; i < 3; ++i) batch.push_back(ip_packet(kPeer));
  link->from_host(batch, now);
  EXPECT_EQ(count(Counter::drop_link_down), 3U);
  EXPECT_EQ(count(Counter::tx_packets), 3U);
  EXPECT_EQ(pool.available(), pool.capacity()) << "their buffers are free, though not the batch";
  Incoming arrived = datagram(encapsulated(ip_packet(kOwnIp)));
  link->from_fabric({&arrived, 1}, now);
  EXPECT_EQ(count(Counter::drop_not_up), 1U);
  EXPECT_EQ(pool.available(), pool.capacity());
}

/// With --ethernet, the host may solicit at any time.
TEST_F(LinkTest, TheBroadcastGroupIsKnownBeforeItIsJoinedButNotItsRate) {
  make();
  EXPECT_TRUE(std::ranges::any_of(
      link->groups(), [](const GroupInfo& group) { return group.mgid == broadcast(); }));
  EXPECT_EQ(link->group_rate(), 0);
  bring_up();
  EXPECT_EQ(link->group_rate(), 3);
}

TEST_F(LinkTest, NothingIsSolicitedWhileTheLinkIsDown) {
  make();
  link->solicit(kPeer, now);
  EXPECT_EQ(state_of(kPeer), "gone");
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(LinkTest, AnnouncementsEndWithTheLink) {
  bring_up();
  tick_to(now + 1ms);
  port.active = false;
  link->on_port(port, now);
  const auto announced = count(Counter::announcements_sent);
  tick_to(now + 1min);
  EXPECT_EQ(count(Counter::announcements_sent), announced);
}

TEST_F(LinkTest, SendOnlyGroupsAreJoinedAgainWhenTheSmHasLostThem) {
  bring_up();
  send_to_group();
  link->on_client_reregister(now);
  grant_joins();
  forget();
  send(kGroup);
  const auto joins = emitted<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_EQ(joins[0].record.mgid, group());
}

TEST_F(LinkTest, SendOnlyGroupsWithFormerParametersAreLeft) {
  bring_up();
  send_to_group();
  wire::Notice created;
  created.trap_number = wire::trap::kGroupCreated;
  created.gid = broadcast();
  link->on_notice(created, now);
  const auto joins = take<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  auto changed = group_record(broadcast(), 0xc000);
  changed.qkey = QKey(0x1234);
  link->on_response({joins[0].id, changed}, now);
  std::size_t left = 0;
  for (const auto& leave : emitted<LeaveRequest>()) left += leave.record.mgid == group() ? 1U : 0U;
  EXPECT_EQ(left, 1U);
}

/// The number of ports is known from the port's own LID, also after the link had to start again.
TEST_F(LinkTest, ChecksAreAsRareAfterAFailedSetup) {
  port.lid = Lid(1000);
  bring_up();
  link->on_setup_failed(now);
  while (link->state() != LinkState::up) {
    now = link->next_deadline();
    link->tick(now);
    grant_joins();
  }
  forget();
  const TimePoint heard = now;
  receive(datagram(encapsulated(ip_packet(Ipv4Address(0xffffffff))), broadcast()));
  while (emitted<LookupRequest>().empty()) {
    now = link->next_deadline();
    link->tick(now);
  }
  EXPECT_GE(now, heard + 1000 * config.silence_check_per_lid * 3 / 4);
}

TEST_F(LinkTest, ShutDownLeavesSendOnlyGroups) {
  bring_up();
  const Ipv4Address group(0xe1010101);
  send(ip_packet(group, kOwnIp));
  grant_joins();
  forget();
  link->shut_down(now);
  const auto leaves = emitted<LeaveRequest>();
  EXPECT_TRUE(std::ranges::any_of(leaves, [&](const LeaveRequest& leave) {
    return leave.record.mgid == wire::multicast_gid(group, kDefaultPKey) &&
           leave.record.join_state == wire::McMemberRecord::kSendOnlyNonMember;
  }));
  link.reset();
}

}  // namespace
}  // namespace ipoib::link
