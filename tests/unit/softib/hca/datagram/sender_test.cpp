#include "softib/core/network_order.hpp"
#include "tests/unit/softib/hca/hca_fixture.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::UdPacket;
using HcaSendTest = HcaTest;

TEST_F(HcaSendTest, PacketHasTheValuesOfTheWorkRequest) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 5);
  std::memcpy(a.memory.data(), "hello", 5);
  auto wr = a.send_request(a.handle(6), Qpn(0x10203), sge);
  wr.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(a.send(qp, wr, sink), 0);

  ASSERT_EQ(sink.packets.size(), 1U);
  const auto packet = UdPacket::parse(sink.packets[0]);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->lrh.dlid, Lid(6));
  EXPECT_EQ(packet->lrh.slid, Lid(5));
  EXPECT_EQ(packet->lrh.sl, ServiceLevel(3));
  EXPECT_FALSE(packet->grh);
  EXPECT_EQ(packet->bth.pkey, PKey(0xffff));
  EXPECT_EQ(packet->bth.destination, Qpn(0x10203));
  EXPECT_EQ(packet->bth.psn.value(), 100U);
  EXPECT_TRUE(packet->bth.solicited);
  EXPECT_EQ(packet->bth.pad, 3);
  EXPECT_EQ(packet->deth.qkey, QKey(kQKey));
  EXPECT_EQ(packet->deth.source, qp.number());
  EXPECT_EQ(std::string(packet->payload.begin(), packet->payload.end()), "hello");

  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].wr_id, 1U);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[0].opcode, IBV_WC_SEND);
  EXPECT_EQ(wc[0].qp_num, qp.number().value());
}

TEST_F(HcaSendTest, GlobalRouteBecomesAGrh) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 8);
  const auto dgid = b.hca.ports()[1].gid();
  auto wr = a.send_request(a.handle(6, dgid), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  const auto packet = UdPacket::parse(sink.packets.at(0));
  ASSERT_TRUE(packet && packet->grh);
  EXPECT_EQ(packet->grh->sgid, a.hca.ports()[1].gid());
  EXPECT_EQ(packet->grh->dgid, dgid);
  EXPECT_EQ(packet->grh->hop_limit, 7);
  EXPECT_EQ(packet->grh->flow_label, 0x12345U);
  EXPECT_EQ(packet->grh->traffic_class, 0x1c);
}

TEST_F(HcaSendTest, ElementsAreGatheredInOrderAndEmptyOnesSkipped) {
  auto& qp = a.make_qp();
  std::memcpy(a.memory.data(), "abcdefgh", 8);
  std::array sges = {a.element(4, 2), a.element(0, 0), a.element(0, 3), a.element(7, 1)};
  sges[1].lkey = 0;  // the key of an empty element is ignored
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sges[0]);
  wr.num_sge = 4;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  const auto packet = UdPacket::parse(sink.packets.at(0));
  ASSERT_TRUE(packet);
  EXPECT_EQ(std::string(packet->payload.begin(), packet->payload.end()), "efabch");
}

TEST_F(HcaSendTest, InlineDataIsCopiedWhenPostedAndNeedsNoKey) {
  auto& qp = a.make_qp(IBV_QPS_RTS);
  a.modify(qp, IBV_QPS_SQD);
  char text[] = "inline";
  const auto address = std::bit_cast<std::uint64_t>(&text[0]);
  std::array elements{ibv_sge{address, 1, 0}, ibv_sge{0, 0, 0}, ibv_sge{address + 1, 5, 0}};
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), elements[0]);
  wr.num_sge = 3;
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(sink.packets.empty());  // sends wait in SQD
  text[0] = 'X';
  a.modify(qp, IBV_QPS_RTS);
  transmit(a.hca, qp, sink);
  const auto packet = UdPacket::parse(sink.packets.at(0));
  ASSERT_TRUE(packet);
  EXPECT_EQ(std::string(packet->payload.begin(), packet->payload.end()), "inline");
}

TEST_F(HcaSendTest, InlineDataBeyondTheCapIsRefused) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 257);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
}

TEST_F(HcaSendTest, ImmediateDataStaysInNetworkOrder) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = to_network(std::uint32_t{0x01020304});
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  const auto packet = UdPacket::parse(sink.packets.at(0));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->immediate, 0x01020304U);
}

TEST_F(HcaSendTest, ControlledQKeyIsReplacedByTheQueuePairsOwn) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.wr.ud.remote_qkey = 0x80000001;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  wr.wr.ud.remote_qkey = 0x7fffffff;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(0))->deth.qkey, QKey(kQKey));
  EXPECT_EQ(UdPacket::parse(sink.packets.at(1))->deth.qkey, QKey(0x7fffffff));
}

TEST_F(HcaSendTest, PsnCountsPacketsAndWraps) {
  auto& qp = a.make_qp(IBV_QPS_RTR);
  auto attr = attributes(IBV_QPS_RTS);
  attr.sq_psn = 0xffffff;
  ASSERT_TRUE(a.hca.modify(qp, attr, kToRts));
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(0))->bth.psn.value(), 0xffffffU);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(1))->bth.psn.value(), 0U);
}

TEST_F(HcaSendTest, PKeyIsTheOneAtTheQueuePairsPKeyIndex) {
  auto& qp = a.make_qp(IBV_QPS_RTS, a.config(), 1);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(0))->bth.pkey, PKey(0x8012));
}

TEST_F(HcaSendTest, EmptyPKeyTableEntrySendsNothing) {
  auto& qp = a.make_qp(IBV_QPS_RTS, a.config(), 9);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_EQ(a.hca.counters().at(1).send_drop_pkey, 1U);
  EXPECT_EQ(a.poll().size(), 1U);  // the send completes: UD is unreliable
}

TEST_F(HcaSendTest, InactivePortSendsNothing) {
  auto& qp = a.make_qp();
  auto port = a.hca.ports()[1];
  port.state = PortState::down;
  a.hca.set_port(port);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_EQ(a.hca.counters().at(1).send_drop_port, 1U);
  EXPECT_EQ(a.poll().size(), 1U);
}

TEST_F(HcaSendTest, OnlySignalledSendsComplete) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.send_flags = 0;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(a.poll().empty());

  auto all = a.config();
  all.signal_all = true;
  ASSERT_EQ(a.send(a.make_qp(IBV_QPS_RTS, all), wr, sink), 0);
  EXPECT_EQ(a.poll().size(), 1U);
}

TEST_F(HcaSendTest, ChainIsSentInBatchesAndInOrder) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  std::vector<ibv_send_wr> chain(40, a.send_request(a.handle(6), Qpn(0x10000), sge));
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    if (i + 1 < chain.size()) chain[i].next = &chain[i + 1];
  }
  ASSERT_EQ(a.send(qp, chain[0], sink), 0);
  EXPECT_EQ(sink.batches, (std::vector<std::size_t>{kSendBatch, 40 - kSendBatch}));
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 40U);
  for (std::size_t i = 0; i < wc.size(); ++i) EXPECT_EQ(wc[i].wr_id, i);
}

TEST_F(HcaSendTest, ReturnsTheFirstBadRequestOfAChainAndSendsThoseBefore) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  std::vector<ibv_send_wr> chain(3, a.send_request(a.handle(6), Qpn(0x10000), sge));
  chain[0].next = &chain[1];
  chain[1].next = &chain[2];
  chain[1].opcode = IBV_WR_RDMA_WRITE;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(a.hca.post_send(qp, chain.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &chain[1]);
  transmit(a.hca, qp, sink);
  EXPECT_EQ(sink.packets.size(), 1U);
}

TEST_F(HcaSendTest, PostSendAllPostsAllOrNothing) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  std::vector<ibv_send_wr> chain(2, a.send_request(a.handle(6), Qpn(0x10000), sge));
  chain[0].next = &chain[1];
  chain[1].wr.ud.ah = nullptr;
  EXPECT_EQ(a.hca.post_send_all(qp, chain.data()), EINVAL);
  transmit(a.hca, qp, sink);
  EXPECT_TRUE(sink.packets.empty());
  chain[1].wr.ud.ah = chain[0].wr.ud.ah;
  EXPECT_EQ(a.hca.post_send_all(qp, chain.data()), 0);
  transmit(a.hca, qp, sink);
  EXPECT_EQ(sink.packets.size(), 2U);
}

TEST_F(HcaSendTest, BadRequestsAreRefusedWhenPosted) {
  auto& qp = a.make_qp();
  std::array<ibv_sge, 5> sges;
  sges.fill(a.element(0, 4));
  const auto good = a.send_request(a.handle(6), Qpn(0x10000), sges[0]);
  auto wr = good;
  wr.num_sge = 5;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
  wr = good;
  wr.num_sge = -1;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
  wr = good;
  wr.wr.ud.ah = nullptr;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
  wr = good;
  wr.wr.ud.remote_qpn = 0x1000000;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
  wr = good;
  wr.send_flags |= 1U << 10;
  EXPECT_EQ(a.send(qp, wr, sink), EINVAL);
  EXPECT_TRUE(sink.packets.empty());
}

TEST_F(HcaSendTest, QueueIsFullUntilACompletionIsPolled) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.send_flags = 0;
  for (std::uint32_t i = 1; i < kQueue; ++i) ASSERT_EQ(a.send(qp, wr, sink), 0);
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(a.send(qp, wr, sink), ENOMEM);
  // One completion frees its own entry and those of the unsignalled sends before it.
  ASSERT_EQ(a.poll().size(), 1U);
  for (std::uint32_t i = 0; i < kQueue; ++i) EXPECT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(a.send(qp, wr, sink), ENOMEM);
}

struct SendErrorCase {
  const char* name;
  ibv_wc_status status;
  void (*corrupt)(Host& host, ibv_send_wr& wr);
};
void PrintTo(const SendErrorCase& each, std::ostream* out) { *out << each.name; }

class HcaSendErrorTest : public HcaTest, public testing::WithParamInterface<SendErrorCase> {};

TEST_P(HcaSendErrorTest, CompletesInOrderAndMovesTheQueuePairToSqe) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 8);
  std::vector<ibv_send_wr> chain(3, a.send_request(a.handle(6), Qpn(0x10000), sge));
  auto bad_element = a.element(0, 8);
  chain[1].sg_list = &bad_element;
  GetParam().corrupt(a, chain[1]);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    chain[i].send_flags = 0;  // errors are always reported
    if (i + 1 < chain.size()) chain[i].next = &chain[i + 1];
  }
  chain[0].send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(a.send(qp, chain[0], sink), 0);
  EXPECT_EQ(sink.packets.size(), 1U);
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 3U);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[1].status, GetParam().status);
  EXPECT_EQ(wc[1].wr_id, 1U);
  EXPECT_EQ(wc[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(qp.state(), IBV_QPS_SQE);
  EXPECT_EQ(a.hca.counters().send_errors, 1U);

  // Sends are flushed in SQE, and accepted again after SQE -> RTS.
  chain[0].next = nullptr;
  ASSERT_EQ(a.send(qp, chain[0], sink), 0);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_WR_FLUSH_ERR);
  a.modify(qp, IBV_QPS_RTS);
  ASSERT_EQ(a.send(qp, chain[0], sink), 0);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(
    All, HcaSendErrorTest,
    testing::Values(
        SendErrorCase{"longer_than_mtu", IBV_WC_LOC_LEN_ERR,
                      [](Host&, ibv_send_wr& wr) { wr.sg_list->length = 2049; }},
        SendErrorCase{"unknown_key", IBV_WC_LOC_PROT_ERR,
                      [](Host&, ibv_send_wr& wr) { wr.sg_list->lkey ^= 1; }},
        SendErrorCase{"before_region", IBV_WC_LOC_PROT_ERR,
                      [](Host&, ibv_send_wr& wr) { wr.sg_list->addr -= 1; }},
        SendErrorCase{
            "beyond_region", IBV_WC_LOC_PROT_ERR,
            [](Host& host, ibv_send_wr& wr) { wr.sg_list->addr += host.memory.size() - 7; }},
        SendErrorCase{"handle_of_other_domain", IBV_WC_LOC_QP_OP_ERR,
                      [](Host& host, ibv_send_wr& wr) {
                        auto& pd = **host.hca.create_protection_domain();
                        ibv_ah_attr attr{};
                        attr.dlid = 6;
                        attr.port_num = 1;
                        wr.wr.ud.ah = *host.hca.create_address_handle(pd, attr);
                      }},
        SendErrorCase{
            "region_of_other_domain", IBV_WC_LOC_PROT_ERR,
            [](Host& host, ibv_send_wr& wr) {
              auto& pd = **host.hca.create_protection_domain();
              wr.sg_list->lkey =
                  host.hca.register_memory(pd, host.memory.data(), 64, wr.sg_list->addr, 0)->key;
            }}),
    [](const auto& each) { return each.param.name; });

/// Its length does not fit into 32 bits.
TEST_F(HcaSendTest, AMessageOf4GiBAndOneByteIsTooLong) {
  auto& qp = a.make_qp();
  std::array elements{a.element(0, ~0U), a.element(0, 2)};
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), elements[0]);
  wr.num_sge = 2;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(HcaSendTest, SendsMessageOfMtuSize) {
  auto& qp = a.make_qp();
  auto sge = a.element(0, 2048);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_SUCCESS);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(0))->payload.size(), 2048U);
}

TEST_F(HcaSendTest, AddressHandleMayBeDestroyedAfterPosting) {
  auto& qp = a.make_qp();
  a.modify(qp, IBV_QPS_SQD);
  auto sge = a.element(0, 4);
  auto& ah = a.handle(6);
  auto wr = a.send_request(ah, Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_TRUE(a.hca.destroy(ah));
  a.modify(qp, IBV_QPS_RTS);
  transmit(a.hca, qp, sink);
  EXPECT_EQ(UdPacket::parse(sink.packets.at(0))->lrh.dlid, Lid(6));
}

}  // namespace
}  // namespace softib::hca
