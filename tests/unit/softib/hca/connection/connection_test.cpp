// The operations of a reliable connection, and what ends it.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(ConnectionTest, ASendCompletesAReceive) {
  for (const std::size_t size : {0U, 1U, 1024U, 1025U, 5000U}) {
    ASSERT_EQ(b.post_receive(qb, 100'000, 6000, 7), 0);
    ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(10, size)}), 0);
    network.run();
    const auto sent = a.poll();
    ASSERT_THAT(statuses(sent), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
    const auto received = b.poll();
    ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
    EXPECT_EQ(received[0].wr_id, 7U);
    EXPECT_EQ(received[0].byte_len, size);
    EXPECT_EQ(received[0].wc_flags, 0U);
    EXPECT_EQ(received[0].slid, 5);
    EXPECT_EQ(b.bytes(100'000, size), a.bytes(10, size));
  }
}

TEST_F(ConnectionTest, ElementsAreJoinedOnBothSides) {
  std::array<ibv_sge, 3> into = {b.part(0, 1000), b.part(5000, 0), b.part(9000, 3000)};
  ibv_recv_wr wr{1, nullptr, into.data(), 3};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b.hca.post_receive(qb, &wr, &bad), 0);
  ASSERT_EQ(
      a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(20'000, 1500), a.part(100, 2000)}),
      0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
  auto expected = a.bytes(20'000, 1500);
  const auto rest = a.bytes(100, 2000);
  expected.insert(expected.end(), rest.begin(), rest.end());
  auto found = b.bytes(0, 1000);
  const auto more = b.bytes(9000, 2500);
  found.insert(found.end(), more.begin(), more.end());
  EXPECT_EQ(found, expected);
}

TEST_F(ConnectionTest, CompletionsHaveAllFields) {
  reset();
  auto many = make_port(4);
  many.lmc = 2;
  b.hca.set_port(many);
  auto forth = a.connected_attributes(qb.number(), 6);
  forth.pkey_index = 1;
  forth.ah_attr.sl = 3;
  a.connect(qa, forth);
  auto back = b.connected_attributes(qa.number(), 5);
  back.pkey_index = 1;
  back.ah_attr.src_path_bits = 2;
  b.connect(qb, back);
  ASSERT_EQ(b.post_receive(qb, 0, 8), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}, 9), 0);
  network.run();
  const auto sent = a.poll();
  ASSERT_THAT(statuses(sent), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(sent[0].wr_id, 9U);
  EXPECT_EQ(sent[0].qp_num, qa.number().value());
  const auto received = b.poll();
  ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(received[0].qp_num, qb.number().value());
  EXPECT_EQ(received[0].src_qp, qa.number().value());
  EXPECT_EQ(received[0].slid, 5);
  EXPECT_EQ(received[0].sl, 3);
  EXPECT_EQ(received[0].dlid_path_bits, 2);
  EXPECT_EQ(received[0].pkey_index, 1);
}

TEST_F(ConnectionTest, ImmediateDataSolicitedAndInline) {
  ASSERT_EQ(b.post_receive(qb, 0, 100), 0);
  EXPECT_FALSE(b.cq->arm(true));
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND_WITH_IMM), {a.part(0, 100)}, 1,
                   IBV_SEND_INLINE | IBV_SEND_SOLICITED | IBV_SEND_SIGNALED),
            0);
  const auto before = a.bytes(0, 100);
  std::fill_n(a.area.begin(), 100, std::uint8_t{0});  // inline data was copied
  network.run();
  const auto received = b.poll();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wc_flags, IBV_WC_WITH_IMM);
  EXPECT_EQ(received[0].imm_data, 0x01020304U);
  EXPECT_EQ(b.bytes(0, 100), before);
  EXPECT_EQ(b.completion_events(), 1U);
}

TEST_F(ConnectionTest, AWriteNeedsNoReceive) {
  for (const std::size_t size : {0U, 1U, 1024U, 100'000U}) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 300'000), {a.part(3, size)}), 0);
    network.run();
    const auto sent = a.poll();
    ASSERT_THAT(statuses(sent), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(sent[0].opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(b.bytes(300'000, size), a.bytes(3, size));
  }
  EXPECT_THAT(b.poll(), IsEmpty());
}

TEST_F(ConnectionTest, AWriteWithImmediateConsumesAReceive) {
  ASSERT_EQ(b.post_receive(qb, 0, 0), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE_WITH_IMM, 1000), {a.part(0, 3000)}), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received[0].byte_len, 3000U);
  EXPECT_EQ(received[0].imm_data, 0x01020304U);
  EXPECT_EQ(b.bytes(1000, 3000), a.bytes(0, 3000));
}

TEST_F(ConnectionTest, AReadFillsLocalMemory) {
  for (const std::size_t size : {0U, 1U, 1024U, 200'000U}) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 77), {a.part(300'000, size)}), 0);
    network.run();
    const auto done = a.poll();
    ASSERT_THAT(statuses(done), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(done[0].opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(done[0].byte_len, size);
    EXPECT_EQ(a.bytes(300'000, size), b.bytes(77, size));
  }
}

TEST_F(ConnectionTest, AtomicOperationsReturnWhatTheyFind) {
  b.set_word(800, 40);
  const auto at = b.address(800);
  ASSERT_EQ(a.post(qa, ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, at, b.all.key, 2),
                   {a.part(0, 8)}),
            0);
  ASSERT_EQ(a.post(qa, ConnectedHost::atomic(IBV_WR_ATOMIC_CMP_AND_SWP, at, b.all.key, 42, 7),
                   {a.part(8, 4), a.part(16, 5)}),
            0);
  ASSERT_EQ(a.post(qa, ConnectedHost::atomic(IBV_WR_ATOMIC_CMP_AND_SWP, at, b.all.key, 42, 9),
                   {a.part(24, 8)}),
            0);
  network.run();
  const auto done = a.poll();
  ASSERT_THAT(statuses(done), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(done[0].opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(done[1].opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(done[1].byte_len, 8U);
  EXPECT_EQ(a.word(0), 40U);
  EXPECT_EQ(a.bytes(8, 4), (std::vector<std::uint8_t>{42, 0, 0, 0}));
  EXPECT_EQ(a.word(24), 7U);
  EXPECT_EQ(b.word(800), 7U) << "the second comparison fails";
}

TEST_F(ConnectionTest, UnsignalledRequestsCompleteInSilence) {
  for (std::uint64_t id = 0; id < 10; ++id) {
    const unsigned flags = id == 9 ? unsigned{IBV_SEND_SIGNALED} : 0;
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, id, flags), 0);
  }
  network.run();
  const auto done = a.poll();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 9U);
}

TEST_F(ConnectionTest, OneAcknowledgementForManyMessages) {
  std::size_t acks = 0;
  network.on_packet = [&](const ConnectedPacket& packet) {
    acks += packet.opcode == ipoib::wire::ConnectedOpcode::acknowledge ? 1U : 0U;
  };
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  }
  network.run();
  EXPECT_EQ(a.poll().size(), 32U);
  EXPECT_EQ(acks, 1U);
}

TEST_F(ConnectionTest, NoMoreReadsThanThePeerTakes) {
  std::size_t outstanding = 0;
  std::size_t most = 0;
  network.on_packet = [&](const ConnectedPacket& packet) {
    using enum ipoib::wire::ConnectedOpcode;
    if (packet.opcode == read_request) most = std::max(most, ++outstanding);
    if (packet.opcode == read_response_only) --outstanding;
  };
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 8)}), 0);
  }
  network.run();
  EXPECT_THAT(statuses(a.poll()), testing::AllOf(testing::SizeIs(20), Each(IBV_WC_SUCCESS)));
  EXPECT_EQ(most, 4U);
}

/// Acknowledgements pace a connection, so that it does not fill the ring to its peer.
TEST_F(ConnectionTest, AWindowIsNotExceeded) {
  std::int32_t most = 0;
  Psn acknowledged(kFirstPsn);
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (packet.opcode == ipoib::wire::ConnectedOpcode::acknowledge) {
      acknowledged = packet.bth.psn + 1;
    } else {
      most = std::max(most, packet.bth.psn - acknowledged + 1);
    }
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 500'000)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(most, kWindowPackets);
}

/// The responses count.
TEST_F(ConnectionTest, AWindowIsNotExceededByReads) {
  std::int32_t most = 0;
  Psn received(kFirstPsn);
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (packet.opcode != ipoib::wire::ConnectedOpcode::read_request) {
      received = packet.bth.psn + 1;
    } else {
      const Psn end = packet.bth.psn + packet_count(packet.reth.length, 1024);
      most = std::max(most, end - received);
    }
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 500'000)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(most, kWindowPackets);
}

/// A network that repeats requests does not make them more than the peer takes.
TEST_F(ConnectionTest, RepeatedReadsDoNotCount) {
  network.faults.duplicate = 1000;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 8)}), 0);
  }
  network.run();
  EXPECT_THAT(statuses(a.poll()), testing::AllOf(testing::SizeIs(20), Each(IBV_WC_SUCCESS)));
  EXPECT_GE(b.hca.counters().at(1).duplicates, 20U);
}

TEST_F(ConnectionTest, AFencedRequestWaitsForReads) {
  bool was_read = false;
  network.on_packet = [&](const ConnectedPacket& packet) {
    using enum ipoib::wire::ConnectedOpcode;
    was_read |= packet.opcode == read_response_only;
    if (packet.opcode == write_only) {
      EXPECT_TRUE(was_read);
    }
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(500, 100)}), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(500, 100)}, 2,
                   IBV_SEND_FENCE | IBV_SEND_SIGNALED),
            0);
  network.run();
  EXPECT_EQ(a.poll().size(), 2U);
}

TEST_F(ConnectionTest, ASenderWaitsForAReceive) {
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 3000)}), 0);
  while (b.hca.counters().at(1).rnr_naks < 9) ASSERT_TRUE(network.step());
  EXPECT_THAT(a.poll(), IsEmpty()) << "7 retries are without limit";
  ASSERT_EQ(b.post_receive(qb, 0, 4000), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_GE(network.now.time_since_epoch(), 8 * ipoib::wire::rnr_delay(12));
}

/// The peer says when it is ready; the acknowledgement is not due before.
TEST_F(ConnectionTest, ThereIsNoTimeoutWhileAReceiveIsAwaited) {
  reset();
  auto forth = a.connected_attributes(qb.number(), 6);
  forth.timeout = 1;
  forth.retry_cnt = 0;
  a.connect(qa, forth);
  auto back = b.connected_attributes(qa.number(), 5);
  back.min_rnr_timer = 0;  // the longest
  b.connect(qb, back);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}), 0);
  while (b.hca.counters().at(1).rnr_naks < 2) ASSERT_TRUE(network.step());
  EXPECT_GT(network.now.time_since_epoch(), ipoib::wire::rnr_delay(0));
  ASSERT_EQ(b.post_receive(qb, 0, 8), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(a.hca.counters().at(1).retries, 0U);
}

TEST_F(ConnectionTest, RnrRetriesAreCounted) {
  auto attr = a.connected_attributes(qb.number(), 6);
  attr.rnr_retry = 2;
  auto& other = a.make_connected();
  a.connect(other, attr);
  b.modify(qb, IBV_QPS_RESET);
  b.connect(qb, b.connected_attributes(other.number(), 5));
  ASSERT_EQ(a.post(other, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}), 0);
  ASSERT_EQ(a.post(other, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(b.hca.counters().at(1).rnr_naks, 3U);
  EXPECT_EQ(b.hca.counters().at(1).shared_rnr_naks, 0U);
  EXPECT_EQ(other.state(), IBV_QPS_ERR);
}

TEST_F(ConnectionTest, ARequesterWithoutAnswersFailsInTime) {
  network.faults.loss = 1000;
  ASSERT_EQ(a.post_receive(qa, 0, 8), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, 1, 0), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()),
              testing::UnorderedElementsAre(IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR,
                                            IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(a.hca.counters().at(1).retries, 7U);
  const auto timeout =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(4096) * (1 << 14));
  EXPECT_EQ(network.now.time_since_epoch(), 8 * timeout);
}

/// What the receiver will not read at once.
TEST_F(ConnectionTest, PayloadBehindOtherPayloadIsStreamed) {
  std::vector<bool> streamed;
  network.on_outgoing = [&](const OutgoingPacket& packet) {
    if (packet.gso.packets > 1) streamed.push_back(packet.is_streamed);
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 6 * kRunBytes)}), 0);
  network.run();
  ASSERT_EQ(kStreamedAfter, 4 * kRunBytes);
  EXPECT_THAT(streamed, ElementsAre(false, false, false, false, true, true));
  streamed.clear();
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 3 * kRunBytes)}), 0);
  network.run();
  EXPECT_THAT(streamed, ElementsAre(false, true, true));
  streamed.clear();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, kRunBytes)}), 0);
  }
  network.run();
  EXPECT_THAT(streamed, ElementsAre(true, true)) << "of two responses";
}

/// What a living process has not taken yet is not lost.
TEST_F(ConnectionTest, LatePacketsAreNotSentAgain) {
  network.faults.loss = 1000;
  network.has_untaken = true;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(network.step());
  EXPECT_EQ(a.hca.counters().at(1).retries, 0U);
  EXPECT_THAT(a.poll(), IsEmpty());
  network.has_untaken = false;
  network.faults.loss = 0;
  network.run();
  EXPECT_EQ(a.hca.counters().at(1).retries, 1U);
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(ConnectionTest, PacketsWithoutRoomAreOfferedAgain) {
  network.room = 3;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 50'000)}), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 400'000), {a.part(400'000, 50'000)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(a.hca.counters().at(1).retries, 0U);
  EXPECT_EQ(b.bytes(0, 50'000), a.bytes(0, 50'000));
  EXPECT_EQ(a.bytes(400'000, 50'000), b.bytes(400'000, 50'000));
}

TEST_F(ConnectionTest, QueuePairsTakeTurns) {
  auto& qa2 = a.make_connected();
  auto& qb2 = b.make_connected();
  a.connect(qa2, a.connected_attributes(qb2.number(), 6));
  b.connect(qb2, b.connected_attributes(qa2.number(), 5));
  std::vector<Qpn> order;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (!packet.payload.empty()) order.push_back(packet.bth.destination);
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 64 * 1024)}), 0);
  ASSERT_EQ(a.post(qa2, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 64 * 1024)}), 0);
  ASSERT_TRUE(network.step());
  ASSERT_GE(order.size(), 2 * kSendBatch);
  EXPECT_EQ(order[0], qb.number());
  EXPECT_EQ(order[kSendBatch], qb2.number());
}

/// Three connections from a to b, none of which finds room.
class RoomTest : public ConnectionTest {
 protected:
  RoomTest() {
    for (std::size_t i = 1; i < senders.size(); ++i) senders[i] = connect_another(b, 6);
    network.full = Lid(6);
    for (auto* const qp : senders) {
      EXPECT_EQ(a.post(*qp, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, qp->number().value()), 0);
    }
    EXPECT_TRUE(network.step());
  }
  QueuePair* connect_another(ConnectedHost& to, std::uint16_t lid) {
    auto& near = a.make_connected();
    auto& far = to.make_connected();
    a.connect(near, a.connected_attributes(far.number(), lid));
    to.connect(far, to.connected_attributes(near.number(), 5));
    return &near;
  }
  void move(ibv_qp_state to) {
    ibv_qp_attr attr{};
    attr.qp_state = to;
    ASSERT_TRUE(a.hca.modify(*senders[0], attr, IBV_QP_STATE));
  }
  std::vector<std::uint64_t> completed() {
    network.full.reset();
    network.run();
    std::vector<std::uint64_t> ids;
    for (const auto& wc : a.poll()) ids.push_back(wc.wr_id);
    return ids;
  }
  [[nodiscard]] std::uint64_t id(std::size_t sender) const {
    return senders.at(sender)->number().value();
  }

  std::array<QueuePair*, 3> senders{&qa};
};

TEST_F(RoomTest, OneOfThemOffersAgain) {
  EXPECT_EQ(network.offers, 1U);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(network.step());
  EXPECT_EQ(network.offers, 11U);
  EXPECT_THAT(completed(), testing::UnorderedElementsAre(id(0), id(1), id(2)));
}

TEST_F(RoomTest, TheOthersFollowAtOnce) {
  const auto before = network.offers;
  network.full.reset();
  ASSERT_TRUE(network.step());
  EXPECT_EQ(network.offers, before + senders.size());
}

TEST_F(RoomTest, TheyTakeTurns) {
  network.full.reset();
  network.run();
  (void)a.poll();
  std::vector<std::uint32_t> order;
  network.on_packet = [&](const ConnectedPacket& packet) {
    const auto qp = packet.bth.destination.value();
    if (!packet.payload.empty() && (order.empty() || order.back() != qp)) order.push_back(qp);
  };
  network.room = 1;  // a run of packets
  for (auto* const qp : senders) {
    ASSERT_EQ(a.post(*qp, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 10 * kRunBytes)}), 0);
  }
  network.run();
  // At the ends not all three have packets.
  ASSERT_GE(order.size(), 24U);
  for (std::size_t i = 6; i < 24; ++i) EXPECT_EQ(order[i], order[i - 3]) << i;
}

TEST_F(RoomTest, FurtherRequestsWaitBehindThem) {
  for (auto* const qp : senders) {
    ASSERT_EQ(a.post(*qp, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, qp->number().value()), 0);
  }
  EXPECT_FALSE(a.hca.connections().has_active());
  EXPECT_EQ(completed().size(), 2 * senders.size());
}

/// Others use the HCA in between, but do not overtake.
TEST_F(RoomTest, SendsManyPacketsInParts) {
  (void)completed();
  auto* const late = connect_another(b, 6);
  std::size_t packets = 0;
  std::optional<Qpn> first;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (!packet.payload.empty() && packets++ == 0) first = packet.bth.destination;
  };
  const auto post = [&](QueuePair& qp) {
    ASSERT_EQ(a.post(qp, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, kWindowPackets * 1024)}), 0);
  };
  for (auto* const qp : senders) post(*qp);
  ASSERT_TRUE(network.step());
  EXPECT_GE(packets, kPacketsPerServe);
  EXPECT_LT(packets, kPacketsPerServe + kSendBatch);
  EXPECT_EQ(a.hca.connections().resume_at(network.now), network.now);
  post(*late);
  packets = 0;
  ASSERT_TRUE(network.step());
  EXPECT_NE(first, Qpn(late->attributes().dest_qp_num));
  network.run();
  EXPECT_EQ(a.poll().size(), senders.size() + 1);
}

TEST_F(RoomTest, APostponedOneIsDestroyed) {
  (void)completed();
  for (auto* const qp : senders) {
    ASSERT_EQ(a.post(*qp, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, kWindowPackets * 1024)}), 0);
  }
  ASSERT_TRUE(network.step());
  ASSERT_EQ(a.hca.connections().resume_at(network.now), network.now);
  for (auto* const qp : senders) ASSERT_TRUE(a.hca.destroy(*qp));
  EXPECT_EQ(a.hca.connections().resume_at(network.now), ipoib::kNever);
  network.run();
}

TEST_F(RoomTest, DoesNotDelayPacketsForOthers) {
  auto* const other = connect_another(a, 5);
  ASSERT_EQ(a.post(*other, a.request(IBV_WR_RDMA_WRITE, a.address(0), a.all.key), {a.part(0, 8)}),
            0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(network.step());
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(RoomTest, TheNextOneFollowsWhenTheFirstIsReset) {
  move(IBV_QPS_RESET);
  EXPECT_THAT(completed(), ElementsAre(id(1), id(2)));
}

TEST_F(RoomTest, TheNextOneFollowsWhenTheFirstIsDestroyed) {
  ASSERT_TRUE(a.hca.destroy(*senders[0]));
  EXPECT_THAT(completed(), ElementsAre(id(1), id(2)));
}

TEST_F(RoomTest, OneThatIsNotTheFirstIsDestroyed) {
  ASSERT_TRUE(a.hca.destroy(*senders[1]));
  const auto before = network.offers;
  ASSERT_TRUE(network.step());
  EXPECT_EQ(network.offers, before + 1);
  EXPECT_THAT(completed(), testing::UnorderedElementsAre(id(0), id(2)));
}

/// What is flushed needs no room.
TEST_F(RoomTest, TheNextOneFollowsWhenTheFirstFails) {
  move(IBV_QPS_ERR);
  EXPECT_THAT(completed(), ElementsAre(id(0), id(1), id(2)));
}

// --- What is refused -----------------------------------------------------------------------------

struct Refusal {
  ibv_wc_status status;  ///< of the request
  ibv_event_type event;  ///< at the responder
};

class RefusedTest : public ConnectionTest {
 protected:
  void expect_refused(const ibv_send_wr& wr, std::size_t size, const Refusal& expected) {
    const auto before = b.area;
    ASSERT_EQ(b.post_receive(qb, 0, 8), 0);
    ASSERT_EQ(a.post(qa, wr, {a.part(0, size)}, 11), 0);
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, 12, 0), 0);
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(expected.status, IBV_WC_WR_FLUSH_ERR));
    EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_WR_FLUSH_ERR));
    EXPECT_THAT(b.async_events(), testing::Contains(expected.event));
    EXPECT_EQ(qa.state(), IBV_QPS_ERR);
    EXPECT_EQ(qb.state(), IBV_QPS_ERR);
    EXPECT_EQ(b.area, before);
  }
  static constexpr Refusal kAccess{IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR};
  static constexpr Refusal kInvalid{IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR};
};

TEST_F(RefusedTest, AKeyOfNoRegion) {
  expect_refused(ConnectedHost::request(IBV_WR_RDMA_WRITE, b.address(0), b.all.key + 1), 8,
                 kAccess);
}

TEST_F(RefusedTest, ARegionWithoutRemoteAccess) {
  const auto address = std::bit_cast<std::uint64_t>(b.memory.data());
  expect_refused(ConnectedHost::request(IBV_WR_RDMA_READ, address, b.region.key), 8, kAccess);
}

TEST_F(RefusedTest, BytesBehindTheRegion) {
  expect_refused(remote(IBV_WR_RDMA_WRITE, b.area.size() - 3000), 3001, kAccess);
}

TEST_F(RefusedTest, ARegionOfAnotherDomain) {
  auto& other = **b.hca.create_protection_domain();
  const auto region = *b.hca.register_memory(other, b.area.data(), 100, b.address(0), kAllAccess);
  expect_refused(ConnectedHost::request(IBV_WR_RDMA_READ, b.address(0), region.key), 8, kAccess);
}

TEST_F(RefusedTest, AnAtomicOperationOnAnOddAddress) {
  expect_refused(ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(1), b.all.key, 1), 8,
                 kInvalid);
}

TEST_F(RefusedTest, AnAtomicOperationOnAnOddAddressOfAlignedMemory) {
  constexpr std::uint64_t kOdd = 0x10004;
  const auto region = *b.hca.register_memory(*b.pd, b.area.data(), 100, kOdd, kAllAccess);
  expect_refused(ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, kOdd, region.key, 1), 8,
                 kInvalid);
}

TEST_F(RefusedTest, AnAtomicOperationOnMemoryThatIsNotAligned) {
  constexpr std::uint64_t kAligned = 0x10000;
  const auto region = *b.hca.register_memory(*b.pd, b.area.data() + 4, 100, kAligned, kAllAccess);
  expect_refused(ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, kAligned, region.key, 1), 8,
                 kInvalid);
}

TEST_F(RefusedTest, AnAtomicOperationOnARegionWithoutAtomics) {
  const auto region = *b.hca.register_memory(*b.pd, b.area.data(), 100, b.address(0),
                                             kAllAccess & ~IBV_ACCESS_REMOTE_ATOMIC);
  expect_refused(ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(0), region.key, 1), 8,
                 kAccess);
}

TEST_F(ConnectionTest, AMessageThatIsTooLongForItsReceive) {
  ASSERT_EQ(b.post_receive(qb, 0, 1500), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 1501)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_REM_INV_REQ_ERR));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_LOC_LEN_ERR));
}

TEST_F(ConnectionTest, AReceiveWhoseMemoryMayNotBeWritten) {
  ibv_sge sge{b.address(0), 100, b.all.key + 1};
  ibv_recv_wr wr{1, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b.hca.post_receive(qb, &wr, &bad), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_REM_OP_ERR));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_LOC_PROT_ERR));
}

TEST_F(ConnectionTest, ARequestWithABadKeyFailsInItsOrder) {
  auto bad = a.part(0, 8);
  ++bad.lkey;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 5000)}, 1), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {bad}, 2), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, 3), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()),
              ElementsAre(IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
}

TEST_F(ConnectionTest, MemoryThatIsDeregisteredDuringARead) {
  network.room = 1;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(300'000, 20'000)}), 0);
  ASSERT_TRUE(network.step());
  ASSERT_TRUE(network.step());
  ASSERT_TRUE(b.hca.memory().remove(b.all.key));
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_REM_ACCESS_ERR));
  EXPECT_THAT(b.async_events(), testing::Contains(IBV_EVENT_QP_ACCESS_ERR));
}

/// A READ that comes again after its memory has been taken back is no error.
TEST_F(ConnectionTest, MemoryThatIsDeregisteredBeforeARepeatedRead) {
  std::optional<ConnectedPacket> request;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (packet.opcode == ipoib::wire::ConnectedOpcode::read_request) request = packet;
  };
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(300'000, 8)}), 0);
  network.run();
  ASSERT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  ASSERT_TRUE(request);
  std::array<std::uint8_t, ConnectedPacket::kMaxHeaderSize> bytes;
  const auto size = request->emit_headers(0, bytes);
  b.hca.receive({ConstBytes(bytes).first(size)});
  ASSERT_TRUE(b.hca.memory().remove(b.all.key));
  network.run();
  EXPECT_EQ(b.hca.counters().at(1).duplicates, 1U);
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
  EXPECT_THAT(b.async_events(), testing::Not(testing::Contains(IBV_EVENT_QP_ACCESS_ERR)));
}

TEST_F(ConnectionTest, PacketsOfOthersAreDropped) {
  ConnectedHost stranger{7};
  auto& qc = stranger.make_connected();
  stranger.connect(qc, stranger.connected_attributes(qb.number(), 6));
  network.add(stranger.hca);
  const auto before = b.area;
  ASSERT_EQ(stranger.post(qc, remote(IBV_WR_RDMA_WRITE, 0), {stranger.part(0, 100)}), 0);
  network.run();
  EXPECT_EQ(b.area, before);
  EXPECT_EQ(b.hca.counters().at(1).drop_lid, 8U);
  EXPECT_THAT(statuses(stranger.poll()), ElementsAre(IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
}

TEST_F(ConnectionTest, ADatagramDoesNotReachAConnection) {
  ListSink sink;
  auto& ud = a.make_qp();
  ASSERT_EQ(b.post_receive(qb, 0, 100), 0);
  auto sge = a.element(0, 8);
  auto wr = a.send_request(a.handle(6), qb.number(), sge);
  wr.wr.ud.remote_qkey = 0;
  ASSERT_EQ(a.send(ud, wr, sink), 0);
  b.hca.receive({sink.packets.at(0)});
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(b.hca.counters().at(1).drop_unknown_qp, 1U);
}

// --- States --------------------------------------------------------------------------------------

TEST_F(ConnectionTest, AReadyToReceiveQueuePairReportsItsFirstPacket) {
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  network.run();
  ASSERT_EQ(a.poll().size(), 1U);
  EXPECT_THAT(b.async_events(), IsEmpty()) << "it may send";
  reset();
  a.connect(qa, a.connected_attributes(qb.number(), 6));
  b.connect(qb, b.connected_attributes(qa.number(), 5), IBV_QPS_RTR);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
    network.run();
  }
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_THAT(b.async_events(), ElementsAre(IBV_EVENT_COMM_EST));
}

TEST_F(ConnectionTest, ADrainedSendQueueStartsNothing) {
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 5000)}, 1), 0);
  ASSERT_TRUE(network.step());
  auto attr = a.connected_attributes(qb.number(), 6);
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.hca.modify(qa, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  EXPECT_EQ(qa.attributes().sq_draining, 1);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, 2), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(a.async_events(), ElementsAre(IBV_EVENT_SQ_DRAINED));
  EXPECT_EQ(qa.attributes().sq_draining, 0);
  a.modify(qa, IBV_QPS_RTS);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(ConnectionTest, AQueuePairThatHasFailedOrWasResetDoesNotDrain) {
  for (const auto state : {IBV_QPS_ERR, IBV_QPS_RESET}) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
    a.modify(qa, IBV_QPS_SQD);
    EXPECT_EQ(qa.attributes().sq_draining, 1);
    a.modify(qa, state);
    EXPECT_EQ(qa.attributes().sq_draining, 0);
    reconnect();
    EXPECT_EQ(qa.attributes().sq_draining, 0);
  }
}

TEST_F(ConnectionTest, ErrorFlushesBothQueuesInOrder) {
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(a.post_receive(qa, 0, 8, 10 + id), 0);
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}, id, 0), 0);
  }
  a.modify(qa, IBV_QPS_ERR);
  const auto flushed = a.poll();
  std::vector<std::uint64_t> ids;
  for (const auto& wc : flushed) ids.push_back(wc.wr_id);
  EXPECT_THAT(statuses(flushed), Each(IBV_WC_WR_FLUSH_ERR));
  EXPECT_THAT(ids, ElementsAre(11, 12, 13, 1, 2, 3));
}

/// Four READs were outstanding, retries were used up, and it was about to send again.
TEST_F(ConnectionTest, AfterResetTheRequesterKnowsNothingOfTheOldConnection) {
  network.faults.loss = 1000;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 8)}), 0);
  }
  network.run();
  EXPECT_EQ(a.poll().size(), 4U);
  const auto retries = a.hca.counters().at(1).retries;
  network.faults.loss = 0;
  reconnect();
  bool is_first = true;
  network.is_lost = [&](const ConnectedPacket&) { return std::exchange(is_first, false); };
  const auto before = network.now;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(300'000, 5000)}), 0);
  for (std::size_t done = 0; done < 2; done += a.poll().size()) ASSERT_TRUE(network.step());
  EXPECT_EQ(a.hca.counters().at(1).retries, retries + 1);
  EXPECT_LT(network.now - before, std::chrono::milliseconds(1)) << "a NAK makes it send again";
}

/// Neither right after the NAK nor during the pause that it causes.
TEST_F(ConnectionTest, AfterResetNoReceiveIsAwaited) {
  for (const int steps : {1, 2}) {
    const auto naks = b.hca.counters().at(1).rnr_naks;
    ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}), 0);
    while (b.hca.counters().at(1).rnr_naks == naks) ASSERT_TRUE(network.step());
    const auto write = ConnectedHost::request(IBV_WR_RDMA_WRITE, a.address(0), a.all.key);
    ASSERT_EQ(b.post(qb, write, {b.part(0, 5000)}), 0);  // so that time passes in small steps
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(network.step());
    reconnect();
    const auto before = network.now;
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 5000)}), 0);
    while (a.poll().empty()) ASSERT_TRUE(network.step());
    EXPECT_LT(network.now - before, ipoib::wire::rnr_delay(12));
  }
}

TEST_F(ConnectionTest, ADestroyedQueuePairLeavesNoDeadline) {
  network.faults.loss = 1000;
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 8)}), 0);
  ASSERT_TRUE(network.step());
  ASSERT_TRUE(a.hca.destroy(qa));
  network.run();
  EXPECT_EQ(a.hca.counters().at(1).retries, 0U);
}

/// Packets are as small as the link needs, whatever the program says.
TEST_F(ConnectionTest, APathMtuMayExceedThatOfTheLink) {
  ASSERT_LT(a.hca.ports()[1].mtu, IBV_MTU_4096);
  auto& from = a.make_connected();
  auto& to = b.make_connected();
  connect_pair(a, from, b, to, IBV_MTU_4096);
  EXPECT_EQ(from.attributes().path_mtu, IBV_MTU_4096);
  EXPECT_EQ(from.connection().attributes.mtu(), 2048U);
  ASSERT_EQ(b.post_receive(to, 0, 5000), 0);
  ASSERT_EQ(a.post(from, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 5000)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(ConnectionTest, AttributesAreChecked) {
  auto& qp = a.make_connected();
  auto attr = a.connected_attributes(qb.number(), 6);
  a.connect(qp, attr, IBV_QPS_INIT);
  const auto refused = [&](auto change, ibv_qp_state to, int mask) {
    auto other = attr;
    other.qp_state = to;
    change(other);
    return !a.hca.modify(qp, other, mask);
  };
  EXPECT_TRUE(refused([](auto& x) { x.path_mtu = ibv_mtu(6); }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.path_mtu = ibv_mtu(0); }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.dest_qp_num = 1 << 24; }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.max_dest_rd_atomic = 17; }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.min_rnr_timer = 32; }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.ah_attr.port_num = 2; }, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.ah_attr.is_global = x.ah_attr.grh.sgid_index = 1; },
                      IBV_QPS_RTR, kRcToRtr));
  EXPECT_EQ(qp.state(), IBV_QPS_INIT);
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_TRUE(a.hca.modify(qp, attr, kRcToRtr));
  EXPECT_TRUE(refused([](auto& x) { x.timeout = 32; }, IBV_QPS_RTS, kRcToRts));
  EXPECT_TRUE(refused([](auto& x) { x.retry_cnt = 8; }, IBV_QPS_RTS, kRcToRts));
  EXPECT_TRUE(refused([](auto& x) { x.rnr_retry = 8; }, IBV_QPS_RTS, kRcToRts));
  EXPECT_TRUE(refused([](auto& x) { x.max_rd_atomic = 17; }, IBV_QPS_RTS, kRcToRts));
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_TRUE(a.hca.modify(qp, attr, kRcToRts));
  const auto now = qp.attributes();
  EXPECT_EQ(now.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(now.dest_qp_num, qb.number().value());
  EXPECT_EQ(now.rq_psn, kFirstPsn);
  EXPECT_EQ(now.sq_psn, kFirstPsn);
  EXPECT_EQ(now.ah_attr.dlid, 6);
  EXPECT_EQ(now.timeout, 14);
}

TEST_F(ConnectionTest, EachAttributeIsChangedByItsBitAlone) {
  const auto values = [&] {
    const auto attr = qa.attributes();
    return std::array<unsigned, 8>{
        attr.ah_attr.dlid,  attr.qp_access_flags, attr.max_rd_atomic, attr.max_dest_rd_atomic,
        attr.min_rnr_timer, attr.timeout,         attr.retry_cnt,     attr.rnr_retry};
  };
  ibv_qp_attr other{};
  other.ah_attr.dlid = 8;
  other.ah_attr.port_num = 1;
  other.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  other.max_rd_atomic = 2;
  other.max_dest_rd_atomic = 3;
  other.min_rnr_timer = 11;
  other.timeout = 13;
  other.retry_cnt = 5;
  other.rnr_retry = 6;
  auto expected = values();
  EXPECT_EQ(expected, (std::array<unsigned, 8>{6, kAllAccess, 4, 5, 12, 14, 7, 7}));
  a.modify(qa, IBV_QPS_SQD);
  const std::array<std::pair<int, unsigned>, 8> changes = {{{IBV_QP_AV, 8},
                                                            {IBV_QP_ACCESS_FLAGS, 1 << 2},
                                                            {IBV_QP_MAX_QP_RD_ATOMIC, 2},
                                                            {IBV_QP_MAX_DEST_RD_ATOMIC, 3},
                                                            {IBV_QP_MIN_RNR_TIMER, 11},
                                                            {IBV_QP_TIMEOUT, 13},
                                                            {IBV_QP_RETRY_CNT, 5},
                                                            {IBV_QP_RNR_RETRY, 6}}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ASSERT_TRUE(a.hca.modify(qa, other, changes[i].first));
    expected[i] = changes[i].second;
    EXPECT_EQ(values(), expected) << "bit " << changes[i].first;
  }
}

TEST_F(ConnectionTest, RequestsAreChecked) {
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_TSO), {a.part(0, 8)}), EINVAL);
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_ATOMIC_CMP_AND_SWP), {a.part(0, 7)}), EINVAL);
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_DRIVER1), {a.part(0, 8)}), EINVAL);
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 8)}, 1, IBV_SEND_IP_CSUM),
            EINVAL);
  EXPECT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 8)}, 1, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 257)}, 1, IBV_SEND_INLINE),
            EINVAL);
  const ibv_sge huge{a.address(0), kMaxMessage, a.all.key};
  EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {huge, a.part(0, 1)}), EINVAL);
  EXPECT_FALSE(a.hca.attach(qa, kGroup, kGroupLid));
}

}  // namespace
}  // namespace softib::hca
