#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

class HcaMulticastTest : public HcaTest {
 protected:
  void send_multicast(QueuePair& from, const Gid& group = kGroup, Lid lid = kGroupLid,
                      Qpn qpn = ipoib::kMulticastQpn) {
    auto sge = a.element(0, 4);
    auto wr = a.send_request(a.handle(lid.value(), group), qpn, sge);
    wr.send_flags = 0;
    ASSERT_EQ(a.send(from, wr, sink), 0);
    deliver();
  }
};

TEST_F(HcaMulticastTest, ReachesEveryAttachedQueuePairAndTheSender) {
  auto& sender = a.make_qp();
  auto& neighbour = a.make_qp();
  auto& remote = b.make_qp();
  auto& not_attached = b.make_qp();
  for (auto* qp : {&sender, &neighbour}) {
    ASSERT_TRUE(a.hca.attach(*qp, kGroup, kGroupLid));
    ASSERT_EQ(a.receive_into(*qp, 1000, 100), 0);
  }
  ASSERT_TRUE(b.hca.attach(remote, kGroup, kGroupLid));
  ASSERT_EQ(b.receive_into(remote, 0, 100), 0);
  ASSERT_EQ(b.receive_into(not_attached, 0, 100), 0);
  send_multicast(sender);
  EXPECT_EQ(a.poll().size(), 2U);
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].qp_num, remote.number().value());
  EXPECT_EQ(wc[0].src_qp, sender.number().value());
  EXPECT_EQ(wc[0].wc_flags, unsigned{IBV_WC_GRH});
  EXPECT_EQ(ipoib::wire::Grh::parse(ConstBytes(b.memory).first(kGrh))->dgid, kGroup);
}

TEST_F(HcaMulticastTest, BlockSelfMulticastDropsOwnPackets) {
  auto config = a.config();
  config.block_self_multicast = true;
  auto& sender = a.make_qp(IBV_QPS_RTS, config);
  ASSERT_TRUE(a.hca.attach(sender, kGroup, kGroupLid));
  ASSERT_EQ(a.receive_into(sender, 0, 100), 0);
  send_multicast(sender);
  EXPECT_TRUE(a.poll().empty());
}

TEST_F(HcaMulticastTest, OwnPacketsOfALimitedMemberAreNoViolation) {
  constexpr std::uint16_t kLimited = 2;  // in the tables of both ports
  auto& sender = a.make_qp(IBV_QPS_RTS, a.config(), kLimited);
  auto& peer = b.make_qp(IBV_QPS_RTS, b.config(), kLimited);
  ASSERT_TRUE(a.hca.attach(sender, kGroup, kGroupLid));
  ASSERT_TRUE(b.hca.attach(peer, kGroup, kGroupLid));
  ASSERT_EQ(a.receive_into(sender, 0, 100), 0);
  ASSERT_EQ(b.receive_into(peer, 0, 100), 0);
  send_multicast(sender);
  EXPECT_TRUE(a.poll().empty());
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(a.hca.counters().at(1).drop_pkey, 0U);
  EXPECT_EQ(b.hca.counters().at(1).drop_pkey, 1U) << "of another port";
}

TEST_F(HcaMulticastTest, AQueuePairWithoutAPortGetsNothingOfItsOwnPort) {
  auto& sender = a.make_qp();
  auto& reset = a.make_qp(IBV_QPS_RESET, a.config());
  ASSERT_TRUE(a.hca.attach(reset, kGroup, kGroupLid));
  send_multicast(sender);
  EXPECT_TRUE(a.poll().empty());
}

TEST_F(HcaMulticastTest, BlockSelfMulticastReceivesFromTheSameQueuePairNumberElsewhere) {
  Host twin(9, QpnLayout::epoch(a.make_qp().number()));
  auto config = twin.config();
  config.block_self_multicast = true;
  auto& sender = a.make_qp();
  auto* receiver = &twin.make_qp(IBV_QPS_RTS, config);
  while (receiver->number() != sender.number()) receiver = &twin.make_qp(IBV_QPS_RTS, config);
  ASSERT_TRUE(twin.hca.attach(*receiver, kGroup, kGroupLid));
  ASSERT_EQ(twin.receive_into(*receiver, 0, 100), 0);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(kGroupLid.value(), kGroup), ipoib::kMulticastQpn, sge);
  ASSERT_EQ(a.send(sender, wr, sink), 0);
  twin.hca.receive({sink.packets.at(0)});
  EXPECT_EQ(twin.poll().size(), 1U) << "of another port";
}

TEST_F(HcaMulticastTest, DetachedGroupsMakeRoom) {
  auto& qp = b.make_qp();
  for (std::uint64_t i = 0; i <= kMaxAttachedGroups; ++i) {
    const Gid group(kGroup.prefix(), Guid(i));
    ASSERT_TRUE(b.hca.attach(qp, group, kGroupLid)) << i;
    ASSERT_TRUE(b.hca.detach(qp, group, kGroupLid));
  }
}

TEST_F(HcaMulticastTest, GroupsThatShareALidAreDistinguishedByGid) {
  auto& qp = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
  send_multicast(a.make_qp(), *Gid::parse("ff12:401b:ffff::1"));
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(b.hca.counters().at(1).drop_not_attached, 1U);
}

TEST_F(HcaMulticastTest, RequiresTheMulticastQpn) {
  auto& qp = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
  send_multicast(a.make_qp(), kGroup, kGroupLid, qp.number());
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(b.hca.counters().at(1).drop_gid, 1U);
}

TEST_F(HcaMulticastTest, DetachedQueuePairReceivesNothing) {
  auto& qp = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_TRUE(b.hca.detach(qp, kGroup, kGroupLid));
  ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
  send_multicast(a.make_qp());
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(b.hca.detach(qp, kGroup, kGroupLid).error().code, EINVAL);
}

TEST_F(HcaMulticastTest, AttachingTwiceIsOneAttachment) {
  auto& qp = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
  ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
  send_multicast(a.make_qp());
  EXPECT_EQ(b.poll().size(), 1U);
  ASSERT_TRUE(b.hca.detach(qp, kGroup, kGroupLid));
  EXPECT_TRUE(b.hca.destroy(qp));
}

TEST_F(HcaMulticastTest, AttachedQueuePairCannotBeDestroyed) {
  auto& qp = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  EXPECT_EQ(b.hca.destroy(qp).error().code, EBUSY);
}

TEST_F(HcaMulticastTest, DetachesFromAllGroupsAtOnce) {
  auto& qp = b.make_qp();
  auto& other = b.make_qp();
  ASSERT_TRUE(b.hca.attach(qp, kGroup, kGroupLid));
  ASSERT_TRUE(b.hca.attach(qp, kGroup, Lid(0xc001)));
  ASSERT_TRUE(b.hca.attach(other, kGroup, kGroupLid));
  b.hca.detach_all(qp);
  EXPECT_TRUE(b.hca.destroy(qp));
  ASSERT_EQ(b.receive_into(other, 0, 100), 0);
  send_multicast(a.make_qp());
  EXPECT_EQ(b.poll().size(), 1U);
}

TEST_F(HcaMulticastTest, AttachRequiresMulticastAddresses) {
  auto& qp = b.make_qp();
  EXPECT_EQ(b.hca.attach(qp, b.hca.ports()[1].gid(), kGroupLid).error().code, EINVAL);
  EXPECT_EQ(b.hca.attach(qp, kGroup, Lid(5)).error().code, EINVAL);
  EXPECT_EQ(b.hca.attach(qp, kGroup, ipoib::kPermissiveLid).error().code, EINVAL);
}

TEST_F(HcaMulticastTest, GroupsAndMembersAreBounded) {
  auto& qp = b.make_qp();
  for (std::uint32_t i = 0; i < kMaxAttachedGroups; ++i) {
    Gid::Bytes bytes = kGroup.bytes();
    bytes[14] = static_cast<std::uint8_t>(i >> 8);
    bytes[15] = static_cast<std::uint8_t>(i);
    ASSERT_TRUE(b.hca.attach(qp, Gid(bytes), kGroupLid));
  }
  EXPECT_EQ(b.hca.attach(qp, kGroup, kGroupLid).error().message,
            "queue pairs are attached to 1024 multicast groups, the maximum of a process: detach "
            "some");

  for (std::uint32_t i = 0; i < kMaxAttachedQps; ++i) {
    ASSERT_TRUE(a.hca.attach(a.make_qp(), kGroup, kGroupLid));
  }
  EXPECT_EQ(a.hca.attach(a.make_qp(), kGroup, kGroupLid).error().message,
            "the multicast group has 128 queue pairs of this process, the maximum: detach some");
}

}  // namespace
}  // namespace softib::hca
