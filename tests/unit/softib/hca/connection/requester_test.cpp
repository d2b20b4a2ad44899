// The requester of a connection: which packets it puts into an outbox, and what completes requests.
#include "tests/unit/softib/hca/queue_pair_fixture.hpp"

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RequesterTest : public QueuePairTest {
 protected:
  explicit RequesterTest(ibv_qp_type type = IBV_QPT_RC) : qp(make(type)) {}

  void post(ibv_wr_opcode opcode, ibv_sge sge) {
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {0x1000, 0x42};
    ASSERT_EQ(qp.enqueue(wr), 0);
  }
  /// Builds the next packets, and sends all of them.
  void send() {
    outbox.clear();
    requester.build(outbox);
    requester.sent(outbox.size());
  }
  void acknowledge(std::uint32_t psn, Aeth aeth = {}) {
    ConnectedPacket packet;
    packet.bth.psn = Psn(psn);
    packet.aeth = aeth;
    requester.handle_acknowledge(packet);
  }

  QueuePair& qp;
  Requester& requester = qp.connection().requester;
};

TEST_F(RequesterTest, AMessageIsARunOfPacketsThatReferToItsMemory) {
  post(IBV_WR_RDMA_WRITE, element(10, 5000));
  send();
  ASSERT_EQ(outbox.size(), 1U);
  const auto& packet = outbox.packets()[0];
  EXPECT_EQ(packet.gso.packets, 5);
  EXPECT_EQ(packet.gso.size, kMtu);
  EXPECT_EQ(packet.purpose, Purpose::request);
  EXPECT_EQ(packet.pieces[0].data(), memory.data() + 10);
  EXPECT_EQ(packet.payload_size, 5000U);
  const auto head = headers(packet);
  EXPECT_EQ(head.bth.psn, Psn(kFirst));
  EXPECT_EQ(head.bth.destination, Qpn(77));
  EXPECT_EQ(head.reth, (ipoib::wire::Reth{0x1000, 0x42, 5000}));
  EXPECT_EQ(requester.next_psn(), Psn(kFirst + 5));
}

TEST_F(RequesterTest, TheLastAcknowledgementCompletesARequest) {
  post(IBV_WR_RDMA_WRITE, element(0, 5000));
  send();
  acknowledge(kFirst + 3);
  EXPECT_THAT(statuses(), IsEmpty());
  acknowledge(kFirst + 5);
  EXPECT_THAT(statuses(), IsEmpty()) << "it was not sent";
  acknowledge(kFirst + 4);
  const auto done = poll();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].opcode, IBV_WC_RDMA_WRITE);
  send();
  EXPECT_TRUE(outbox.empty());
}

TEST_F(RequesterTest, PacketsThatWereNotSentAreBuiltAgain) {
  for (int i = 0; i < 3; ++i) post(IBV_WR_SEND, element(0, 1));
  requester.build(outbox);
  EXPECT_EQ(outbox.size(), 3U);
  requester.sent(1);
  send();
  ASSERT_EQ(outbox.size(), 2U);
  EXPECT_EQ(sent()[0].bth.psn, Psn(kFirst + 1));
}

TEST_F(RequesterTest, ANakMakesItSendAgainFromTheMissingPacket) {
  post(IBV_WR_RDMA_WRITE, element(0, 5000));
  send();
  acknowledge(kFirst + 2, {.kind = Aeth::Kind::nak, .value = Aeth::kSequenceError});
  EXPECT_EQ(counters.at(1).retries, 1U);
  send();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].bth.psn, Psn(kFirst + 2));
  EXPECT_EQ(outbox.packets()[0].gso.packets, 3);
  EXPECT_EQ(outbox.packets()[0].pieces[0].data(), memory.data() + 2 * kMtu);
}

TEST_F(RequesterTest, OnlyProgressMovesTheDeadline) {
  qp.connection().attributes.timeout = 14;  // 67 ms
  post(IBV_WR_RDMA_WRITE, element(0, 5000));
  send();
  ipoib::TimePoint now{std::chrono::seconds(1)};
  const auto deadline = requester.update_deadline(now);
  ASSERT_NE(deadline, ipoib::kNever);
  now += std::chrono::milliseconds(2);
  EXPECT_EQ(requester.update_deadline(now), deadline);
  now += std::chrono::milliseconds(2);
  EXPECT_EQ(requester.update_deadline(now), deadline);
  acknowledge(kFirst + 1);
  EXPECT_GT(requester.update_deadline(now), deadline);
}

TEST_F(RequesterTest, AnRnrNakPausesIt) {
  post(IBV_WR_SEND, element(0, 1));
  send();
  acknowledge(kFirst, {.kind = Aeth::Kind::rnr_nak, .value = 12});
  const ipoib::TimePoint now{std::chrono::seconds(1)};
  EXPECT_TRUE(requester.is_paused(now));
  const auto until = requester.update_deadline(now);
  EXPECT_EQ(until, now + ipoib::wire::rnr_delay(12));
  EXPECT_FALSE(requester.is_paused(until));
  send();
  EXPECT_EQ(outbox.size(), 1U);
  acknowledge(kFirst, {.kind = Aeth::Kind::rnr_nak, .value = 12});
  EXPECT_THAT(statuses(), ElementsAre(IBV_WC_RNR_RETRY_EXC_ERR));
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
}

TEST_F(RequesterTest, TheWindowBoundsUnacknowledgedPackets) {
  post(IBV_WR_RDMA_WRITE, element(0, 1 << 20));
  std::uint32_t packets = 0;
  do {
    send();
    packets += static_cast<std::uint32_t>(count_packets(outbox.packets()));
  } while (!outbox.empty());
  EXPECT_EQ(packets, std::min(kWindowPackets, kWindowBytes / kMtu));
  acknowledge(kFirst + 9);
  send();
  EXPECT_EQ(count_packets(outbox.packets()), 10U);
}

TEST_F(RequesterTest, ARequestWithBadMemoryFailsAfterThoseBeforeIt) {
  post(IBV_WR_SEND, element(0, 1));
  auto bad = element(0, 1);
  bad.lkey ^= 1;
  post(IBV_WR_SEND, bad);
  send();
  EXPECT_EQ(outbox.size(), 1U);
  EXPECT_THAT(statuses(), IsEmpty());
  acknowledge(kFirst);
  send();
  EXPECT_TRUE(outbox.empty());
  EXPECT_THAT(statuses(), ElementsAre(IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
}

TEST_F(RequesterTest, AReadCompletesWithItsResponse) {
  post(IBV_WR_RDMA_READ, element(500, 4));
  send();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].opcode, ConnectedOpcode::read_request);
  acknowledge(kFirst);
  EXPECT_THAT(statuses(), IsEmpty()) << "an acknowledgement has no data";
  const std::array<std::uint8_t, 4> data = {9, 8, 7, 6};
  ConnectedPacket response;
  response.opcode = ConnectedOpcode::read_response_only;
  response.bth.psn = Psn(kFirst);
  response.payload = data;
  send();
  requester.handle_response(response);
  EXPECT_THAT(statuses(), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_TRUE(std::ranges::equal(data, std::span(memory).subspan(500, 4)));
}

struct UnreliableRequesterTest : RequesterTest {
  UnreliableRequesterTest() : RequesterTest(IBV_QPT_UC) {}
};

TEST_F(UnreliableRequesterTest, SendingCompletesARequest) {
  post(IBV_WR_SEND, element(0, 1));
  requester.build(outbox);
  EXPECT_THAT(statuses(), IsEmpty());
  requester.sent(1);
  EXPECT_THAT(statuses(), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_FALSE(sent()[0].bth.ack_request);
}

}  // namespace
}  // namespace softib::hca
