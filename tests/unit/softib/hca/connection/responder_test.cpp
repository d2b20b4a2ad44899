// The responder of a connection: what it executes, and which responses it puts into an outbox.
#include "tests/unit/softib/hca/queue_pair_fixture.hpp"

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ResponderTest : public QueuePairTest {
 protected:
  void handle(ConnectedOpcode opcode, std::uint32_t psn, ConstBytes payload = {},
              ipoib::wire::Reth reth = {}) {
    ConnectedPacket packet;
    packet.opcode = opcode;
    packet.bth.psn = Psn(psn);
    packet.bth.ack_request = true;
    packet.reth = reth;
    packet.payload = payload;
    responder.handle_request(packet);
  }
  void write(std::uint32_t psn, std::size_t to, ConstBytes payload) {
    handle(ConnectedOpcode::write_only, psn, payload,
           {address(to), region.key, static_cast<std::uint32_t>(payload.size())});
  }
  /// Builds the responses that are owed, and sends all of them.
  void respond() {
    outbox.clear();
    responder.build(outbox);
    responder.sent(outbox.packets());
  }
  void post_receive(ibv_sge sge) {
    ASSERT_EQ(qp.enqueue({3, nullptr, &sge, 1}, ReceiveKind::datagram), 0);
  }

  static constexpr std::array<std::uint8_t, 3> kData = {200, 201, 202};
  QueuePair& qp = make();
  Responder& responder = qp.connection().responder;
};

TEST_F(ResponderTest, AWriteIsExecutedAndAcknowledged) {
  write(kFirst, 1000, kData);
  EXPECT_TRUE(std::ranges::equal(kData, std::span(memory).subspan(1000, 3)));
  EXPECT_TRUE(responder.owes());
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(outbox.packets()[0].purpose, Purpose::response);
  const auto ack = sent()[0];
  EXPECT_EQ(ack.opcode, ConnectedOpcode::acknowledge);
  EXPECT_EQ(ack.aeth.kind, Aeth::Kind::ack);
  EXPECT_EQ(ack.bth.psn, Psn(kFirst));
  EXPECT_EQ(ack.aeth.msn, 1U);
  EXPECT_FALSE(responder.owes());
}

TEST_F(ResponderTest, ARepeatedWriteIsAcknowledgedOnly) {
  write(kFirst, 1000, kData);
  respond();
  memory[1000] = 1;
  write(kFirst, 1000, kData);
  EXPECT_EQ(memory[1000], 1);
  EXPECT_EQ(counters.at(1).duplicates, 1U);
  respond();
  EXPECT_EQ(outbox.size(), 1U);
}

TEST_F(ResponderTest, AMissingPacketIsAskedForOnce) {
  write(kFirst + 1, 1000, kData);
  write(kFirst + 2, 1000, kData);
  EXPECT_EQ(counters.at(1).sequence_errors, 2U);
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].aeth.kind, Aeth::Kind::nak);
  EXPECT_EQ(sent()[0].aeth.value, Aeth::kSequenceError);
  EXPECT_EQ(sent()[0].bth.psn, Psn(kFirst));
  write(kFirst, 1000, kData);
  write(kFirst + 2, 1000, kData);
  respond();
  ASSERT_EQ(outbox.size(), 2U) << "the next one, too";
  EXPECT_EQ(sent()[1].bth.psn, Psn(kFirst + 1));
  EXPECT_EQ(qp.state(), IBV_QPS_RTS);
}

TEST_F(ResponderTest, AReadIsAnsweredFromMemory) {
  handle(ConnectedOpcode::read_request, kFirst, {}, {address(2000), region.key, 2 * kMtu + 1});
  EXPECT_EQ(responder.expected(), Psn(kFirst + 3)) << "each packet of the response has a PSN";
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  const auto& packet = outbox.packets()[0];
  EXPECT_EQ(packet.gso.packets, 3);
  EXPECT_EQ(packet.pieces[0].data(), memory.data() + 2000);
  EXPECT_EQ(sent()[0].bth.psn, Psn(kFirst));
}

TEST_F(ResponderTest, MoreReadsThanAgreedAreRefused) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    handle(ConnectedOpcode::read_request, kFirst + i, {}, {address(0), region.key, 1});
    EXPECT_EQ(qp.state(), IBV_QPS_RTS);
  }
  handle(ConnectedOpcode::read_request, kFirst + 2, {}, {address(0), region.key, 1});
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_THAT(async_events(), ElementsAre(IBV_EVENT_QP_REQ_ERR));
}

/// It executes nothing for which it could not keep the response: the peer repeats the request.
TEST_F(ResponderTest, ARequestIsAsIfLostWhileThereIsNoRoomForItsResponse) {
  const auto read = [&](std::uint32_t psn) {
    handle(ConnectedOpcode::read_request, psn, {}, {address(0), region.key, 1});
  };
  read(kFirst);
  for (std::size_t i = 1; i < ReceiveWindow::kMaxResponses; ++i) read(kFirst);
  read(kFirst + 1);
  EXPECT_EQ(qp.state(), IBV_QPS_RTS);
  EXPECT_THAT(async_events(), IsEmpty());
  EXPECT_EQ(responder.expected(), Psn(kFirst + 1));
  while (responder.owes()) respond();
  read(kFirst + 1);
  EXPECT_EQ(responder.expected(), Psn(kFirst + 2));
}

TEST_F(ResponderTest, AWrongKeyIsRefused) {
  handle(ConnectedOpcode::write_only, kFirst, kData, {address(0), region.key ^ 1, kData.size()});
  EXPECT_EQ(memory[0], 0);
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_THAT(async_events(), ElementsAre(IBV_EVENT_QP_ACCESS_ERR));
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].aeth.value, Aeth::kRemoteAccessError);
}

/// The memory may be deregistered when the READ has been accepted.
TEST_F(ResponderTest, AReadWhoseMemoryHasGoneIsRefused) {
  handle(ConnectedOpcode::read_request, kFirst, {}, {address(0), region.key, 8});
  ASSERT_TRUE(table.remove(region.key));
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].aeth.kind, Aeth::Kind::nak);
  EXPECT_EQ(sent()[0].aeth.value, Aeth::kRemoteAccessError);
  EXPECT_FALSE(responder.owes());
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
}

TEST_F(ResponderTest, ASendWaitsForAReceive) {
  handle(ConnectedOpcode::send_only, kFirst, kData);
  EXPECT_EQ(counters.at(1).rnr_naks, 1U);
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].aeth.kind, Aeth::Kind::rnr_nak);
  EXPECT_EQ(sent()[0].aeth.value, 12);
  EXPECT_THAT(poll(), IsEmpty());
  post_receive(element(3000, 3));
  handle(ConnectedOpcode::send_only, kFirst, kData);
  const auto done = poll();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 3U);
  EXPECT_EQ(done[0].byte_len, 3U);
  EXPECT_EQ(done[0].src_qp, 77U);
  EXPECT_TRUE(std::ranges::equal(kData, std::span(memory).subspan(3000, 3)));
}

TEST_F(ResponderTest, AMessageThatDoesNotFitIsRefused) {
  post_receive(element(3000, 2));
  handle(ConnectedOpcode::send_only, kFirst, kData);
  EXPECT_THAT(statuses(), ElementsAre(IBV_WC_LOC_LEN_ERR));
  respond();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(sent()[0].aeth.value, Aeth::kInvalidRequest);
}

/// A batch has a bounded number of packets; the rest of the responses is in the next one.
TEST_F(ResponderTest, ALongResponseTakesSeveralBatches) {
  constexpr std::uint32_t kLength = 100 * kMtu;
  handle(ConnectedOpcode::read_request, kFirst, {}, {address(0), region.key, kLength});
  std::size_t packets = 0;
  std::size_t batches = 0;
  while (responder.owes()) {
    respond();
    packets += count_packets(outbox.packets());
    ++batches;
  }
  EXPECT_EQ(packets, 100U);
  EXPECT_GT(batches, 1U);
}

}  // namespace
}  // namespace softib::hca
