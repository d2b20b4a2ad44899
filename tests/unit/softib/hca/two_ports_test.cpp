// An HCA with two ports: a queue pair uses one of them.
#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TwoPorts : public testing::Test {
 protected:
  /// A queue pair on a port of the HCA.
  QueuePair& make_qp(std::uint8_t port) {
    auto& qp = **one.hca.create_queue_pair(one.config());
    auto attr = attributes(IBV_QPS_INIT);
    attr.port_num = port;
    EXPECT_TRUE(one.hca.modify(qp, attr, kToInit));
    one.modify(qp, IBV_QPS_RTR, IBV_QP_STATE);
    one.modify(qp, IBV_QPS_RTS, kToRts);
    EXPECT_EQ(one.receive_into(qp, 0, 2088), 0);
    return qp;
  }
  void send(QueuePair& from, std::uint16_t lid, Qpn to, std::optional<Gid> group = {}) {
    auto sge = one.element(4096, 5);
    auto wr = one.send_request(one.handle(lid, group), to, sge);
    ASSERT_EQ(one.send(from, wr, sink), 0);
    (void)one.poll();
  }
  /// Lets the last packet arrive at a port. Returns the numbers of the queue pairs that got it.
  std::vector<std::uint32_t> arrive(std::uint8_t port) {
    one.hca.receive({.bytes = sink.packets.back(), .port = port});
    std::vector<std::uint32_t> numbers;
    for (const auto& wc : one.poll()) numbers.push_back(wc.qp_num);
    return numbers;
  }
  [[nodiscard]] const HcaCounters& counters() const { return one.hca.counters(); }

  Host one{two_ports(5, 9)};
  ListSink sink;
  QueuePair& first = make_qp(1);
  QueuePair& second = make_qp(2);
};

TEST_F(TwoPorts, AQueuePairSendsByItsPort) {
  send(first, 9, second.number());
  send(second, 5, first.number());
  EXPECT_THAT(sink.ports, ElementsAre(1, 2));
  EXPECT_EQ(ipoib::wire::Lrh::parse(sink.packets[0])->slid, Lid(5));
  EXPECT_EQ(ipoib::wire::Lrh::parse(sink.packets[1])->slid, Lid(9));
}

TEST_F(TwoPorts, OnePortReachesTheOther) {
  send(first, 9, second.number());
  EXPECT_THAT(arrive(2), ElementsAre(second.number().value()));
}

TEST_F(TwoPorts, APacketAtTheWrongPortIsDropped) {
  send(first, 9, second.number());
  EXPECT_THAT(arrive(1), IsEmpty());
  EXPECT_EQ(counters().at(1).drop_lid, 1U) << "it has the LID of the other port";
  send(second, 5, second.number());
  EXPECT_THAT(arrive(1), IsEmpty());
  EXPECT_EQ(counters().at(1).drop_port, 1U) << "the queue pair uses the other port";
}

TEST_F(TwoPorts, APortThatTheHcaDoesNotHaveGetsNothing) {
  send(first, 9, second.number());
  EXPECT_THAT(arrive(3), IsEmpty());
  EXPECT_EQ(counters().at(1).drop_port, 1U);
  Host small(5);
  small.hca.receive({.bytes = sink.packets.back(), .port = 2});
  EXPECT_EQ(small.hca.counters().at(1).drop_port, 1U);
}

TEST_F(TwoPorts, AMulticastPacketIsForTheQueuePairsOfThePortAtWhichItArrives) {
  ASSERT_TRUE(one.hca.attach(first, kGroup, kGroupLid));
  ASSERT_TRUE(one.hca.attach(second, kGroup, kGroupLid));
  send(first, kGroupLid.value(), ipoib::kMulticastQpn, kGroup);
  EXPECT_THAT(arrive(1), ElementsAre(first.number().value()));
  EXPECT_THAT(arrive(2), ElementsAre(second.number().value()));
  EXPECT_EQ(counters().at(1).drop_port + counters().at(2).drop_port, 0U);
  ASSERT_TRUE(one.hca.detach(second, kGroup, kGroupLid));
  EXPECT_THAT(arrive(2), IsEmpty());
  EXPECT_EQ(counters().at(2).drop_not_attached, 1U);
}

TEST_F(TwoPorts, EachPortHasItsStateAndItsKeys) {
  auto port = one.hca.ports()[2];
  port.state = PortState::down;
  port.pkeys[0] = PKey(0x8012);
  one.hca.set_port(port);
  EXPECT_EQ(one.hca.ports()[1].state, PortState::active);
  send(second, 5, first.number());
  EXPECT_EQ(counters().at(2).send_drop_port, 1U);
  EXPECT_EQ(counters().at(1).send_drop_port, 0U);
  EXPECT_THAT(sink.packets, IsEmpty());
  send(first, 5, first.number());
  EXPECT_THAT(arrive(1), ElementsAre(first.number().value()));
  port.state = PortState::active;
  one.hca.set_port(port);
  send(first, 9, second.number());
  EXPECT_THAT(arrive(2), IsEmpty()) << "another partition";
  EXPECT_EQ(counters().at(2).drop_pkey, 1U);
  EXPECT_EQ(counters().at(1).drop_pkey, 0U);
}

TEST_F(TwoPorts, EachPortCountsItsViolations) {
  const auto packets = [&](std::uint8_t port, CheckedKey key) {
    return counters().violations[port - 1U][key].packets;
  };
  second.datagram().qkey = QKey(0x7777);
  send(first, 9, second.number());
  EXPECT_THAT(arrive(2), IsEmpty());
  EXPECT_EQ(packets(2, CheckedKey::qkey), 1U);
  EXPECT_EQ(packets(1, CheckedKey::qkey), 0U);
  EXPECT_EQ(counters().violations[1][CheckedKey::qkey].last,
            (KeyViolation{Lid(5), Lid(9), kQKey, ServiceLevel(3), first.number(), second.number(),
                          Gid(), Gid()}));

  auto port = one.hca.ports()[2];
  port.pkeys[0] = PKey(0x8012);
  one.hca.set_port(port);
  ASSERT_TRUE(one.hca.attach(second, kGroup, kGroupLid));
  ASSERT_TRUE(one.hca.attach(first, kGroup, kGroupLid));
  send(second, kGroupLid.value(), ipoib::kMulticastQpn, kGroup);
  EXPECT_THAT(arrive(1), IsEmpty()) << "another partition";
  EXPECT_EQ(packets(1, CheckedKey::pkey), 1U);
  EXPECT_EQ(packets(2, CheckedKey::pkey), 0U);
  const KeyViolation& last = counters().violations[0][CheckedKey::pkey].last;
  EXPECT_EQ(last.key, 0x8012U);
  EXPECT_EQ(last.source, second.number());
  EXPECT_EQ(last.sgid, one.hca.ports()[2].gid());
  EXPECT_EQ(last.dgid, kGroup);
  EXPECT_EQ(counters().at(1).drop_pkey, 1U);
  EXPECT_EQ(counters().at(2).drop_qkey, 1U);
}

TEST_F(TwoPorts, EventsNameThePort) {
  for (const std::uint8_t number : {std::uint8_t{2}, std::uint8_t{1}}) {
    one.hca.clear_events();
    auto port = one.hca.ports()[number];
    port.state = PortState::down;
    one.hca.set_port(port);
    ASSERT_EQ(one.hca.events().size(), 1U);
    const auto event = std::get<AsyncEvent>(one.hca.events()[0]);
    EXPECT_EQ(event.type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.port, number);
  }
}

TEST_F(TwoPorts, TheHcaFailsAsAWhole) {
  one.hca.clear_events();
  auto port = one.hca.ports()[2];
  port.failed = true;
  port.state = PortState::down;
  one.hca.set_port(port);
  port.number = 1;
  one.hca.set_port(port);
  EXPECT_THAT(one.async_events(), ElementsAre(IBV_EVENT_DEVICE_FATAL));
  EXPECT_TRUE(one.hca.has_failed());
  EXPECT_EQ(first.state(), IBV_QPS_ERR);
  EXPECT_EQ(second.state(), IBV_QPS_ERR);
}

TEST_F(TwoPorts, AConnectionNeedsAPathByItsPort) {
  auto config = one.config();
  config.type = IBV_QPT_RC;
  auto& qp = **one.hca.create_queue_pair(config);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 2;
  ASSERT_TRUE(one.hca.modify(qp, attr,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 0x77;
  attr.ah_attr.dlid = 5;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  for (const int port : {0, 1, 3}) {
    attr.ah_attr.port_num = static_cast<std::uint8_t>(port);
    EXPECT_EQ(one.hca.modify(qp, attr, kMask).error().code, EINVAL) << port;
  }
  attr.ah_attr.port_num = 2;
  EXPECT_TRUE(one.hca.modify(qp, attr, kMask));
  std::array<OutgoingPacket, 2> sent;
  ipoib::wire::ConnectedPacket request;
  write_headers(request, qp.connection().attributes, qp, qp.port_attributes(), sent[0]);
  write_notification(qp.connection().attributes, qp, qp.port_attributes(), sent[1]);
  for (const auto& packet : sent) {
    EXPECT_EQ(packet.port, 2);
    EXPECT_EQ(packet.dlid, Lid(5));
    EXPECT_EQ(packet.destination, Qpn(0x77));
  }
}

TEST_F(TwoPorts, ThereIsNoThirdPort) {
  auto attr = attributes(IBV_QPS_INIT);
  attr.port_num = 3;
  auto& qp = **one.hca.create_queue_pair(one.config());
  EXPECT_EQ(one.hca.modify(qp, attr, kToInit).error().code, EINVAL);
  ibv_ah_attr to{};
  to.port_num = 3;
  EXPECT_EQ(one.hca.create_address_handle(*one.pd, to).error().code, EINVAL);
}

}  // namespace
}  // namespace softib::hca
