// Rules of a link of which each is one line in the source: while it is down, what others may cause,
// and what follows new parameters.
#include "link/source_limit.hpp"
#include "tests/unit/link/link_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {
namespace {

class PacketRules : public LinkFixture {
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
  /// A packet of the peer's address, as its HCA marks it.
  void receive_from(Qpn qpn, Lid lid) {
    Incoming incoming = datagram(encapsulated(ip_packet(kOwnIp, kPeer)));
    incoming.source_qpn = qpn;
    incoming.source_lid = lid;
    receive(std::move(incoming));
  }
};

TEST_F(PacketRules, EachPacketIsCountedWhileTheLinkIsDown) {
  make();
  std::vector<Frame> batch;
  for (int i = 0; i < 3; ++i) batch.push_back(ip_packet(kPeer));
  link->from_host(batch, now);
  EXPECT_EQ(count(Counter::drop_link_down), 3U);
  EXPECT_EQ(count(Counter::tx_packets), 3U);
}

/// With --ethernet, the host may solicit at any time.
TEST_F(PacketRules, NothingIsSolicitedWhileTheLinkIsDown) {
  make();
  link->solicit(kPeer, now);
  EXPECT_EQ(state_of(kPeer), "gone");
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(PacketRules, AnnouncementsEndWithTheLink) {
  bring_up();
  tick_to(now + 1ms);
  port.active = false;
  link->on_port(port, now);
  const auto announced = count(Counter::announcements_sent);
  tick_to(now + 1min);
  EXPECT_EQ(count(Counter::announcements_sent), announced);
}

/// What one sender has shown about itself says nothing about another one.
TEST_F(PacketRules, AnotherQueuePairDoesNotHideThatThePeerHasMoved) {
  bring_up();
  resolve_peer();
  receive_from(Qpn(0x99), Lid(8));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  receive_from(kPeerHw.qpn, Lid(8));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
}

TEST_F(PacketRules, SendOnlyGroupsAreJoinedAgainWhenTheSmHasLostThem) {
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

TEST_F(PacketRules, SendOnlyGroupsWithFormerParametersAreLeft) {
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
TEST_F(PacketRules, ChecksAreAsRareAfterAFailedSetup) {
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

TEST(SourceLimitTest, TheLidsOfAPortAreOneSource) {
  SourceLimit limit(1, kHashKey);
  Incoming datagram;
  datagram.source_lid = Lid(8);
  EXPECT_TRUE(limit.take(datagram, 2, TimePoint(1h)));
  datagram.source_lid = Lid(11);
  EXPECT_FALSE(limit.take(datagram, 2, TimePoint(1h)));
  datagram.source_lid = Lid(12);
  EXPECT_TRUE(limit.take(datagram, 2, TimePoint(1h))) << "another port";
}

}  // namespace
}  // namespace ipoib::link
