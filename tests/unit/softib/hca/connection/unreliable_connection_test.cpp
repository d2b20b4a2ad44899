// Unreliable connections: what arrives whole completes a receive; everything else is dropped
// without a word.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedService;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

class UnreliableConnectionTest : public ConnectionTest {
 protected:
  UnreliableConnectionTest() : ConnectionTest(IBV_QPT_UC) {}

  int send(std::size_t offset, std::size_t size, std::uint64_t id = 1) {
    return a.post(qa, ConnectedHost::request(IBV_WR_SEND), {a.part(offset, size)}, id);
  }
  [[nodiscard]] std::uint64_t dropped() const { return b.hca.counters().at(1).dropped_messages; }
};

TEST_F(UnreliableConnectionTest, ASendCompletesAReceive) {
  for (const std::size_t size : {0U, 1U, 1024U, 1025U, 5000U}) {
    ASSERT_EQ(b.post_receive(qb, 100'000, 6000, 7), 0);
    ASSERT_EQ(send(10, size), 0);
    network.run();
    const auto sent = a.poll();
    ASSERT_THAT(statuses(sent), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
    const auto received = b.poll();
    ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS)) << size;
    EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
    EXPECT_EQ(received[0].wr_id, 7U);
    EXPECT_EQ(received[0].byte_len, size);
    EXPECT_EQ(received[0].src_qp, qa.number().value());
    EXPECT_EQ(b.bytes(100'000, size), a.bytes(10, size));
  }
  EXPECT_EQ(dropped(), 0U);
}

TEST_F(UnreliableConnectionTest, WritesAndImmediateData) {
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 300'000), {a.part(3, 100'000)}), 0);
  ASSERT_EQ(b.post_receive(qb, 0, 0), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE_WITH_IMM, 1000), {a.part(0, 3000)}), 0);
  ASSERT_EQ(b.post_receive(qb, 600'000, 10), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND_WITH_IMM), {a.part(0, 10)}), 0);
  network.run();
  EXPECT_EQ(a.poll().size(), 3U);
  EXPECT_EQ(b.bytes(300'000, 100'000), a.bytes(3, 100'000));
  EXPECT_EQ(b.bytes(1000, 3000), a.bytes(0, 3000));
  const auto received = b.poll();
  ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received[1].opcode, IBV_WC_RECV);
  for (const auto& wc : received) EXPECT_EQ(wc.imm_data, 0x01020304U);
}

TEST_F(UnreliableConnectionTest, NothingIsAcknowledged) {
  std::size_t packets = 0;
  network.on_packet = [&](const ConnectedPacket& each) {
    ++packets;
    EXPECT_EQ(each.service, ConnectedService::unreliable);
    EXPECT_EQ(each.lrh.dlid, Lid(6));
    EXPECT_FALSE(each.bth.ack_request);
  };
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  ASSERT_EQ(send(0, 5000), 0);
  network.run();
  EXPECT_EQ(packets, 5U);
  // Not even if the peer asks for it.
  auto asking = packet(ConnectedOpcode::write_only, 5);
  asking.bth.ack_request = true;
  asking.reth = {b.address(0), b.all.key, 4};
  arrives(asking, 4);
  network.run();
  EXPECT_EQ(packets, 5U);
  EXPECT_EQ(b.bytes(0, 4), (std::vector<std::uint8_t>{0x77, 0x77, 0x77, 0x77}));
}

TEST_F(UnreliableConnectionTest, ALostPacketCostsItsMessage) {
  for (std::uint32_t lost = 0; lost < 3; ++lost) {
    SCOPED_TRACE(lost);
    const auto before = dropped();
    std::uint32_t seen = 0;
    network.is_lost = [&](const ConnectedPacket&) { return seen++ == lost; };
    ASSERT_EQ(b.post_receive(qb, 100'000, 6000), 0);
    ASSERT_EQ(send(0, 3000), 0);
    ASSERT_EQ(send(5000, 2500), 0);
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
    const auto received = b.poll();
    ASSERT_EQ(received.size(), 1U) << "its receive is for the next message";
    EXPECT_EQ(received[0].byte_len, 2500U);
    EXPECT_EQ(b.bytes(100'000, 2500), a.bytes(5000, 2500));
    EXPECT_EQ(dropped() - before, 1U);
  }
}

TEST_F(UnreliableConnectionTest, AMessageThatIsLostCompletelyCostsNoOther) {
  std::uint32_t seen = 0;
  network.is_lost = [&](const ConnectedPacket&) { return seen++ < 2; };
  ASSERT_EQ(b.post_receive(qb, 0, 3000), 0);
  ASSERT_EQ(send(0, 2000), 0);
  ASSERT_EQ(send(0, 3000), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(UnreliableConnectionTest, PartsOfTwoMessagesAreNotOne) {
  ASSERT_EQ(b.post_receive(qb, 0, 6000), 0);
  arrives(packet(ConnectedOpcode::send_first, 0), 1024);
  arrives(packet(ConnectedOpcode::send_last, 9), 10);
  EXPECT_THAT(b.poll(), IsEmpty());
  auto write = packet(ConnectedOpcode::write_first, 10);
  write.reth = {b.address(0), b.all.key, 2000};
  arrives(write, 1024);
  arrives(packet(ConnectedOpcode::send_last, 11), 10);
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(dropped(), 2U);
  arrives(packet(ConnectedOpcode::send_only, 12), 10);
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(UnreliableConnectionTest, AMessageWithoutAReceiveIsDropped) {
  ASSERT_EQ(send(0, 3000), 0);
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE_WITH_IMM, 1000), {a.part(0, 10)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(dropped(), 2U);
  ASSERT_EQ(b.post_receive(qb, 0, 3000), 0);
  arrives(packet(ConnectedOpcode::send_middle, 4), 1024);  // of a message that began before
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(dropped(), 3U);
  reconnect();
  arrives(packet(ConnectedOpcode::send_middle, 0), 1024);
  EXPECT_EQ(dropped(), 4U) << "it is of none that was dropped before the reset";
}

TEST_F(UnreliableConnectionTest, RequestsThatTheProgramDoesNotAllowAreDropped) {
  const auto untouched = b.area;
  ASSERT_EQ(b.post_receive(qb, 0, 100, 3), 0);
  ASSERT_EQ(send(0, 3000), 0);  // too long
  auto write =
      ConnectedHost::request(IBV_WR_RDMA_WRITE, b.address(0) + b.area.size() - 10, b.all.key);
  ASSERT_EQ(a.post(qa, write, {a.part(0, 11)}), 0);
  write.wr.rdma.rkey += 1;
  write.wr.rdma.remote_addr = b.address(0);
  ASSERT_EQ(a.post(qa, write, {a.part(0, 10)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), Each(IBV_WC_SUCCESS)) << "nobody tells the sender";
  EXPECT_EQ(dropped(), 3U);
  EXPECT_THAT(b.hca.events(), IsEmpty());
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
  EXPECT_TRUE(std::equal(untouched.begin() + 100, untouched.end(), b.area.begin() + 100));
  ASSERT_EQ(send(0, 100), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(received[0].wr_id, 3U) << "the receive stayed posted";
}

TEST_F(UnreliableConnectionTest, AReceiveWithBadMemoryFails) {
  auto sge = b.part(0, 100);
  ++sge.lkey;
  ibv_recv_wr wr{4, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b.hca.post_receive(qb, &wr, &bad), 0);
  ASSERT_EQ(send(0, 100), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(qb.state(), IBV_QPS_ERR);
}

TEST_F(UnreliableConnectionTest, ReadsAndAtomicOperationsAreRefused) {
  EXPECT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 8)}), EINVAL);
  const auto add = ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(0), b.all.key, 1);
  EXPECT_EQ(a.post(qa, add, {a.part(0, 8)}), EINVAL);
}

TEST_F(UnreliableConnectionTest, PacketsOfAnotherServiceAreDropped) {
  ASSERT_EQ(b.post_receive(qb, 0, 100), 0);
  auto other = packet(ConnectedOpcode::send_only, 0);
  other.service = ConnectedService::reliable;
  arrives(other, 10);
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(b.hca.counters().at(1).drop_unknown_qp, 1U);
  auto& reliable = b.make_connected();
  b.connect(reliable, b.connected_attributes(qa.number(), 5));
  ASSERT_EQ(b.post_receive(reliable, 0, 100), 0);
  auto unreliable = packet(ConnectedOpcode::send_only, 0);
  unreliable.bth.destination = reliable.number();
  arrives(unreliable, 10);
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(b.hca.counters().at(1).drop_unknown_qp, 2U);
}

TEST_F(UnreliableConnectionTest, AnErrorOfASendLeadsToSqe) {
  auto outside = a.part(0, 100);
  ++outside.lkey;
  network.room = 1;
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  ASSERT_EQ(send(0, 2000, 1), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {outside}, 2), 0);
  ASSERT_EQ(send(0, 100, 3), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()),
              ElementsAre(IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(qa.state(), IBV_QPS_SQE);
  EXPECT_EQ(b.poll().size(), 1U);

  ASSERT_EQ(a.post_receive(qa, 0, 100), 0);
  ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_SEND), {b.part(0, 100)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS)) << "it receives";

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_TRUE(a.hca.modify(qa, attr, IBV_QP_STATE));
  (void)b.poll();
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  ASSERT_EQ(send(0, 5000), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS)) << "and sends again";
}

TEST_F(UnreliableConnectionTest, AStartedMessageIsDrained) {
  network.room = 1;
  ASSERT_EQ(b.post_receive(qb, 0, 40'000), 0);
  ASSERT_EQ(send(0, 40'000), 0);
  ASSERT_TRUE(network.step());  // the first run of packets
  a.hca.clear_events();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.hca.modify(qa, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  ASSERT_EQ(send(0, 10), 0);  // is not started
  ASSERT_TRUE(network.step());
  EXPECT_EQ(qa.attributes().sq_draining, 1);
  EXPECT_TRUE(a.hca.events().empty());
  network.run();
  EXPECT_EQ(a.poll().size(), 1U);
  EXPECT_EQ(b.poll().size(), 1U);
  ASSERT_EQ(a.hca.events().size(), 1U);
  EXPECT_EQ(std::get<AsyncEvent>(a.hca.events()[0]).type, IBV_EVENT_SQ_DRAINED);
}

TEST_F(UnreliableConnectionTest, APortThatIsDownLosesPackets) {
  auto down = make_port(5);
  down.state = PortState::down;
  a.hca.set_port(down);
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  ASSERT_EQ(send(0, 5000), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(a.hca.counters().at(1).send_drop_port, 5U);
  EXPECT_THAT(b.poll(), IsEmpty());
}

/// Each message is full of its own number, so one that is made of two is found.
TEST_F(UnreliableConnectionTest, MessagesAreWholeWhateverIsLost) {
  constexpr std::size_t kSlot = 8000;
  constexpr std::size_t kReceives = 20;
  constexpr std::uint8_t kBatch = 10;
  constexpr std::size_t kInto = 500'000;
  std::size_t posted = 0;
  std::size_t next_receive = 0;
  std::size_t received = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Network faulty(seed);
    faulty.add(a.hca);
    faulty.add(b.hca);
    faulty.faults = {.loss = 30, .duplicate = 30, .reorder = 30, .whole = seed % 3 * 500};
    faulty.room = 1 + seed % 5;
    for (; posted < kReceives; ++posted) {
      ASSERT_EQ(b.post_receive(qb, kInto + next_receive * kSlot, kSlot, next_receive), 0);
      next_receive = (next_receive + 1) % kReceives;
    }
    for (std::uint8_t i = 0; i < kBatch; ++i) {
      std::fill_n(a.area.begin() + i * std::ptrdiff_t{kSlot}, kSlot,
                  std::uint8_t(seed * kBatch + i));
      ASSERT_EQ(send(i * kSlot, 1 + random() % kSlot), 0);
    }
    faulty.run();
    EXPECT_EQ(a.poll().size(), kBatch);
    for (const auto& wc : b.poll()) {
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      const auto found = b.bytes(kInto + wc.wr_id * kSlot, wc.byte_len);
      ASSERT_EQ(std::ranges::count(found, found.at(0)), wc.byte_len);
      --posted;
      ++received;
    }
  }
  EXPECT_GT(received, 500U);
  EXPECT_GT(dropped(), 50U);
}

}  // namespace
}  // namespace softib::hca
