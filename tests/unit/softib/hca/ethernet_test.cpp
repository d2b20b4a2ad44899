// HCAs with RoCE ports, whose packets are routed by their GIDs.
#include "softib/core/ip_gid.hpp"
#include "softib/hca/ip_header.hpp"
#include "softib/hca/route.hpp"
#include "tests/unit/softib/hca/hca_fixture.hpp"
#include "wire/checksum.hpp"

namespace softib::hca {
namespace {

const Gid kOurs = gid_of_ipv4(0x0a000001);
const Gid kTheirs = gid_of_ipv4(0x0a000002);
const Gid kOurs6(0xfd00'0000'0000'0000, Guid(1));
const Gid kTheirs6(0xfd00'0000'0000'0000, Guid(2));

PortAttributes ethernet_port(const Gid& v4, const Gid& v6) {
  auto port = make_port(0);
  port.link_layer = LinkLayer::ethernet;
  port.sm_lid = Lid();
  port.gids = {v4, v6};
  return port;
}

class EthernetTest : public HcaTest {
 protected:
  void SetUp() override {
    a.hca.set_port(ethernet_port(kOurs, kOurs6));
    b.hca.set_port(ethernet_port(kTheirs, kTheirs6));
  }

  [[nodiscard]] ibv_ah_attr address(const Gid& to, std::uint8_t index) const {
    ibv_ah_attr attr{};
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.sgid_index = index;
    attr.grh.hop_limit = 7;
    attr.grh.traffic_class = 0x68;
    std::ranges::copy(to.bytes(), attr.grh.dgid.raw);
    return attr;
  }

  /// Sends a datagram of five bytes, and delivers it.
  void send(const Gid& to_gid, std::uint8_t index, Qpn to) {
    std::memcpy(a.memory.data(), "hello", 5);
    auto sge = a.element(0, 5);
    const auto handle = a.hca.create_address_handle(*a.pd, address(to_gid, index));
    ASSERT_TRUE(handle);
    auto wr = a.send_request(**handle, to, sge);
    ASSERT_EQ(a.send(from_, wr, sink), 0);
    deliver();
  }

  QueuePair& from_ = a.make_qp();
  QueuePair& to_ = b.make_qp();
};

TEST_F(EthernetTest, AnAddressNeedsAGrhAndAGidOfThePort) {
  auto attr = address(kTheirs, 0);
  EXPECT_TRUE(a.hca.create_address_handle(*a.pd, attr));
  attr.grh.sgid_index = 2;
  EXPECT_FALSE(a.hca.create_address_handle(*a.pd, attr)) << "the entry is empty";
  attr.grh.sgid_index = 8;
  EXPECT_FALSE(a.hca.create_address_handle(*a.pd, attr)) << "there is no such entry";
  attr = address(kTheirs, 0);
  attr.is_global = 0;
  const auto without = a.hca.create_address_handle(*a.pd, attr);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, EINVAL);
}

TEST_F(EthernetTest, AnIpv4HeaderIsInTheLast20BytesBeforeTheDatagram) {
  ASSERT_EQ(b.receive_into(to_, 0, 2088), 0);
  send(kTheirs, 0, to_.number());
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].byte_len, kGrh + 5);
  EXPECT_NE(wc[0].wc_flags & IBV_WC_GRH, 0U);
  EXPECT_EQ(wc[0].slid, 0);
  const auto ip = std::span(b.memory).subspan(20, 20);
  EXPECT_EQ(ip[0], 0x45);
  EXPECT_EQ(ip[1], 0x68);
  EXPECT_EQ(ip[8], 7);
  EXPECT_EQ(ip[9], 17);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&ip[12]), 0x0a000001U);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&ip[16]), 0x0a000002U);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&ip[2]), 20 + 8 + 12 + 8 + 8 + 4) << "UDP to ICRC";
  EXPECT_EQ(ipoib::wire::internet_checksum(ip), 0);
  const auto route = ipv4_route_of(std::span(b.memory).first<40>());
  ASSERT_TRUE(route);
  EXPECT_EQ(route->sgid, kOurs);
  EXPECT_EQ(route->dgid, kTheirs);
  EXPECT_EQ(route->traffic_class, 0x68);
  EXPECT_EQ(route->hop_limit, 7);
}

TEST_F(EthernetTest, AnIpv6HeaderSaysThatUdpFollows) {
  ASSERT_EQ(b.receive_into(to_, 0, 2088), 0);
  send(kTheirs6, 1, to_.number());
  ASSERT_EQ(b.poll().size(), 1U);
  const auto grh = ipoib::wire::Grh::parse(std::span(b.memory).first(40));
  ASSERT_TRUE(grh);
  EXPECT_EQ(grh->next_header, 17);
  EXPECT_EQ(grh->sgid, kOurs6);
  EXPECT_EQ(grh->payload_length, 8 + 12 + 8 + 8 + 4);
  EXPECT_FALSE(ipv4_route_of(std::span(b.memory).first<40>()));
}

TEST_F(EthernetTest, ADatagramForAnotherAddressIsDropped) {
  ASSERT_EQ(b.receive_into(to_, 0, 2088), 0);
  send(gid_of_ipv4(0x0a000003), 0, to_.number());
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(b.hca.counters().at(1).drop_gid, 1U);
}

TEST_F(EthernetTest, AGroupNeedsNoLid) {
  const auto group = *Gid::parse("ff0e::ffff:ef01:203");
  ASSERT_TRUE(b.hca.attach(to_, group, Lid()));
  ASSERT_EQ(b.receive_into(to_, 0, 2088), 0);
  send(group, 0, ipoib::kMulticastQpn);
  EXPECT_EQ(b.poll().size(), 1U);
  EXPECT_TRUE(b.hca.detach(to_, group, Lid()));
}

TEST_F(EthernetTest, AGroupOfIpv4IsAMappedAddress) {
  const auto group = gid_of_ipv4(0xef010203);
  ASSERT_TRUE(b.hca.attach(to_, group, Lid()));
  EXPECT_FALSE(b.hca.attach(to_, gid_of_ipv4(0x0a000009), Lid())) << "no group";
  EXPECT_EQ(b.hca.multicast_groups(), std::vector{group});
  ASSERT_EQ(b.receive_into(to_, 0, 2088), 0);
  send(group, 0, ipoib::kMulticastQpn);
  EXPECT_EQ(b.poll().size(), 1U);
  EXPECT_TRUE(b.hca.detach(to_, group, Lid()));
  EXPECT_TRUE(b.hca.multicast_groups().empty());
}

// Queue pairs of two hosts may have the same number.
TEST_F(EthernetTest, OnlyWhatThePortItselfHasSentIsItsOwn) {
  const auto group = gid_of_ipv4(0xef010203);
  auto config = b.config();
  config.block_self_multicast = true;
  auto& blocked = b.make_qp(IBV_QPS_RTS, config);
  ASSERT_TRUE(b.hca.attach(blocked, group, Lid()));
  const auto arrives_from = [&](const Gid& sender) {
    if (b.receive_into(blocked, 0, 2088) != 0) return false;
    ipoib::wire::UdPacket packet;
    packet.lrh.dlid = kRoceMulticastLid;
    packet.bth.destination = ipoib::kMulticastQpn;
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.deth = {blocked.datagram().qkey, blocked.number()};
    auto& grh = packet.grh.emplace();
    grh.sgid = sender;
    grh.dgid = group;
    std::vector<std::uint8_t> bytes(ipoib::wire::UdPacket::kMaxHeaderSize + 4);
    bytes.resize(packet.emit_headers(4, bytes) + 4);
    b.hca.receive({bytes});
    return !b.poll().empty();
  };
  EXPECT_FALSE(arrives_from(kTheirs));
  EXPECT_TRUE(arrives_from(kOurs));
}

TEST(FlowLabel, FollowsFromTheQueuePairs) {
  // As rdma_calc_flow_label() of Linux.
  EXPECT_EQ(flow_label_of(Qpn(0x11), Qpn(0x20)), 0x220U);
  EXPECT_EQ(flow_label_of(Qpn(0xfedcba), Qpn(0x987654)), 0x2a423U);
  EXPECT_NE(flow_label_of(Qpn(0xc0000), Qpn(0x40001)), flow_label_of(Qpn(0xc0000), Qpn(0x40002)));
}

TEST_F(EthernetTest, AConnectionTakesPacketsOfItsPeersAddressAlone) {
  auto config = b.config();
  config.type = IBV_QPT_RC;
  auto& qp = **b.hca.create_queue_pair(config);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_TRUE(
      b.hca.modify(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr = address(kOurs, 0);
  attr.ah_attr.dlid = 0xffff;  // of a REQ of Linux: IB_LID_PERMISSIVE
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 0x11;
  attr.rq_psn = 1;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 1;
  ASSERT_TRUE(b.hca.modify(qp, attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  ASSERT_EQ(b.receive_into(qp, 0, 64), 0);
  const auto deliver_from = [&](const Gid& from) {
    ipoib::wire::ConnectedPacket packet;
    packet.opcode = ipoib::wire::ConnectedOpcode::send_only;
    packet.bth.destination = qp.number();
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.psn = ipoib::wire::Psn(1);
    auto& grh = packet.grh.emplace();
    grh.sgid = from;
    grh.dgid = kTheirs;
    std::vector<std::uint8_t> bytes(ipoib::wire::ConnectedPacket::kMaxHeaderSize + 4);
    bytes.resize(packet.emit_headers(4, bytes) + 4);
    b.hca.receive({bytes});
  };
  deliver_from(gid_of_ipv4(0x0a000009));
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(b.hca.counters().at(1).drop_lid, 1U);
  deliver_from(kOurs);
  EXPECT_EQ(b.poll().size(), 1U);
}

TEST_F(EthernetTest, AnotherAddressIsAnEvent) {
  const auto before = ethernet_port(kOurs, kOurs6);
  EXPECT_THAT(port_events(before, ethernet_port(kOurs, kTheirs6)),
              testing::ElementsAre(IBV_EVENT_GID_CHANGE));
  EXPECT_TRUE(port_events(before, before).empty());
}

}  // namespace
}  // namespace softib::hca
