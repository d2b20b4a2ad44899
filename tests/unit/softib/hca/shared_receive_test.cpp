// Shared receive queues: several queue pairs of all types take their receives from one.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Two pairs of connections, whose receivers on host b share a queue.
class SharedReceiveTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kReceives = 8;

  explicit SharedReceiveTest(ibv_qp_type type = IBV_QPT_RC) : type_(type) {
    network.add(a.hca);
    network.add(b.hca);
    for (std::size_t i = 0; i < senders.size(); ++i) {
      senders[i] = &a.make_connected(kQueue, type);
      receivers[i] = &make_receiver(type);
      a.connect(*senders[i], a.connected_attributes(receivers[i]->number(), 6));
      b.connect(*receivers[i], b.connected_attributes(senders[i]->number(), 5));
    }
  }
  QueuePair& make_receiver(ibv_qp_type type) {
    auto with = b.config();
    with.type = type;
    with.shared = &shared;
    with.cap.max_recv_wr = with.cap.max_recv_sge = 0;
    return **b.hca.create_queue_pair(with);
  }
  int post(std::size_t offset, std::size_t size, std::uint64_t id) {
    auto sge = b.part(offset, size);
    return post(sge, id);
  }
  int post(ibv_sge& sge, std::uint64_t id) {
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    const int error = b.hca.shared_receives().post(shared, &wr, &bad);
    EXPECT_EQ(bad != nullptr, error != 0);
    return error;
  }
  int send(std::size_t sender, std::size_t offset, std::size_t size) {
    return a.post(*senders[sender], ConnectedHost::request(IBV_WR_SEND), {a.part(offset, size)});
  }
  void set_limit(std::uint32_t limit) {
    ASSERT_TRUE(b.hca.shared_receives().modify(
        shared, {.max_wr = 0, .max_sge = 0, .srq_limit = limit}, IBV_SRQ_LIMIT));
  }
  static std::vector<std::uint64_t> ids(const std::vector<ibv_wc>& completions) {
    std::vector<std::uint64_t> out;
    for (const auto& wc : completions) out.push_back(wc.wr_id);
    return out;
  }
  void expect_delivered(const ibv_wc& wc, std::size_t receiver, std::size_t to, std::size_t from,
                        std::size_t size) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.qp_num, receivers[receiver]->number().value());
    EXPECT_EQ(wc.byte_len, size);
    EXPECT_EQ(b.bytes(to, size), a.bytes(from, size));
  }

  ibv_qp_type type_;
  ConnectedHost a{5};
  ConnectedHost b{6};
  SharedReceiveQueue& shared =
      **b.hca.shared_receives().create({.pd = b.pd, .attributes = {kReceives, 2, 0}});
  std::array<QueuePair*, 2> senders{};
  std::array<QueuePair*, 2> receivers{};
  Network network;
};

class SharedReceiveOfUnreliableTest : public SharedReceiveTest {
 protected:
  SharedReceiveOfUnreliableTest() : SharedReceiveTest(IBV_QPT_UC) {}
};

TEST_F(SharedReceiveTest, MessagesTakeTheOldestReceive) {
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(post(100'000 + id * 5000, 5000, id), 0);
  for (const std::size_t sender : {1U, 0U, 1U}) {
    ASSERT_EQ(send(sender, 3000 * sender, 3000), 0);
    network.run();
  }
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(0, 1, 2));
  expect_delivered(received[0], 1, 100'000, 3000, 3000);
  expect_delivered(received[1], 0, 105'000, 0, 3000);
  expect_delivered(received[2], 1, 110'000, 3000, 3000);
  EXPECT_THAT(a.poll(), SizeIs(3));
  EXPECT_EQ(shared.waiting(), 0U);
}

TEST_F(SharedReceiveTest, AMessageKeepsItsReceive) {
  network.room = 1;  // so the packets of both come in turn
  ASSERT_EQ(post(100'000, 40'000, 1), 0);
  ASSERT_EQ(post(200'000, 40'000, 2), 0);
  ASSERT_EQ(send(0, 0, 40'000), 0);
  ASSERT_EQ(send(1, 50'000, 3000), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(2, 1)) << "the short one is complete first";
  expect_delivered(received[0], 1, 200'000, 50'000, 3000);
  expect_delivered(received[1], 0, 100'000, 0, 40'000);
}

TEST_F(SharedReceiveTest, AnRdmaWriteWithImmediateTakesOne) {
  ASSERT_EQ(post(0, 0, 1), 0);
  const auto write =
      ConnectedHost::request(IBV_WR_RDMA_WRITE_WITH_IMM, b.address(100'000), b.all.key);
  ASSERT_EQ(a.post(*senders[0], write, {a.part(0, 3000)}), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(1));
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  expect_delivered(received[0], 0, 100'000, 0, 3000);
}

TEST_F(SharedReceiveTest, AnEmptyQueueDelaysMessages) {
  ASSERT_EQ(send(0, 0, 3000), 0);
  ASSERT_EQ(send(1, 0, 3000), 0);
  while (b.hca.counters().at(1).rnr_naks < 2) ASSERT_TRUE(network.step());
  EXPECT_EQ(b.hca.counters().at(1).shared_rnr_naks, b.hca.counters().at(1).rnr_naks);
  ASSERT_EQ(post(100'000, 5000, 1), 0);
  ASSERT_EQ(post(200'000, 5000, 2), 0);
  network.run();
  EXPECT_THAT(b.poll(), SizeIs(2));
  EXPECT_THAT(a.poll(), SizeIs(2));
}

TEST_F(SharedReceiveOfUnreliableTest, AnEmptyQueueDropsMessages) {
  ASSERT_EQ(send(0, 0, 3000), 0);
  network.run();
  ASSERT_EQ(post(100'000, 5000, 1), 0);
  ASSERT_EQ(send(1, 3000, 2000), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(1));
  expect_delivered(received[0], 1, 100'000, 3000, 2000);
  EXPECT_EQ(b.hca.counters().at(1).dropped_messages, 1U);
}

TEST_F(SharedReceiveOfUnreliableTest, AnIncompleteMessageLeavesItsReceiveToTheNext) {
  ASSERT_EQ(post(100'000, 5000, 1), 0);
  ASSERT_EQ(post(200'000, 5000, 2), 0);
  std::size_t seen = 0;
  network.is_lost = [&](const ConnectedPacket&) { return ++seen == 2; };
  ASSERT_EQ(send(0, 0, 3000), 0);
  network.run();
  EXPECT_THAT(b.poll(), IsEmpty());
  ASSERT_EQ(send(1, 0, 100), 0);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(2)) << "the other queue pair has taken the first one";
  ASSERT_EQ(send(0, 7000, 200), 0);
  network.run();
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(1));
  expect_delivered(received[0], 0, 100'000, 7000, 200);
}

TEST_F(SharedReceiveTest, DatagramsTakeReceives) {
  auto with = b.config();
  with.shared = &shared;
  auto& to = b.make_qp(IBV_QPS_RTS, with);
  auto& from = a.make_qp();
  auto& ah = a.handle(6);
  auto sge = a.element(0, 100);
  auto wr = a.send_request(ah, to.number(), sge);
  ListSink sink;
  const auto arrive = [&] {
    ASSERT_EQ(a.send(from, wr, sink), 0);
    for (const auto& packet : std::exchange(sink.packets, {})) b.hca.receive({packet});
  };
  arrive();
  EXPECT_EQ(b.hca.counters().at(1).drop_no_receive, 1U);
  ASSERT_EQ(post(100'000, 200, 1), 0);
  arrive();
  const auto received = b.poll();
  ASSERT_THAT(ids(received), ElementsAre(1));
  EXPECT_EQ(received[0].byte_len, kGrh + 100);
  EXPECT_EQ(b.bytes(100'000 + kGrh, 100),
            std::vector<std::uint8_t>(a.memory.begin(), a.memory.begin() + 100));
}

TEST_F(SharedReceiveTest, TheLimitIsReachedOnce) {
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(post(0, 100, id), 0);
  set_limit(3);
  EXPECT_EQ(shared.attributes().srq_limit, 3U);
  const auto receive = [&] {
    ASSERT_EQ(send(0, 0, 10), 0);
    network.run();
  };
  b.hca.clear_events();
  receive();
  EXPECT_THAT(b.async_events(), IsEmpty()) << "three are left";
  receive();
  ASSERT_THAT(b.async_events(), ElementsAre(IBV_EVENT_SRQ_LIMIT_REACHED));
  EXPECT_EQ(std::get<AsyncEvent>(b.hca.events()[0]).shared, &shared);
  EXPECT_EQ(shared.attributes().srq_limit, 0U);
  receive();
  EXPECT_THAT(b.async_events(), SizeIs(1));
  set_limit(1);
  receive();
  EXPECT_THAT(b.async_events(), SizeIs(2)) << "armed again";
  EXPECT_EQ(b.hca.counters().at(1).shared_limits, 2U);
}

TEST_F(SharedReceiveTest, AQueuePairInErrLeavesTheReceivesToOthers) {
  ASSERT_EQ(post(100'000, 5000, 1), 0);
  ASSERT_EQ(post(200'000, 5000, 2), 0);
  b.hca.clear_events();
  b.modify(*receivers[0], IBV_QPS_ERR);
  ASSERT_THAT(b.async_events(), ElementsAre(IBV_EVENT_QP_LAST_WQE_REACHED));
  EXPECT_EQ(std::get<AsyncEvent>(b.hca.events()[0]).qp, receivers[0]);
  b.modify(*receivers[0], IBV_QPS_ERR);
  EXPECT_THAT(b.async_events(), SizeIs(1)) << "once";
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(shared.waiting(), 2U);
  ASSERT_EQ(send(1, 0, 10), 0);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(1));
}

TEST_F(SharedReceiveTest, TheReceiveOfAnUnfinishedMessageIsFlushed) {
  ASSERT_EQ(post(100'000, 40'000, 1), 0);
  network.room = 1;
  ASSERT_EQ(send(0, 0, 40'000), 0);
  while (shared.waiting() != 0) ASSERT_TRUE(network.step());
  b.hca.clear_events();
  b.modify(*receivers[0], IBV_QPS_ERR);
  const auto flushed = b.poll();
  ASSERT_THAT(ids(flushed), ElementsAre(1));
  EXPECT_EQ(flushed[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed[0].qp_num, receivers[0]->number().value());
  EXPECT_THAT(b.async_events(), ElementsAre(IBV_EVENT_QP_LAST_WQE_REACHED));
}

TEST_F(SharedReceiveTest, AQueuePairStaysWithItsQueueAfterAReset) {
  a.modify(*senders[0], IBV_QPS_RESET);
  b.modify(*receivers[0], IBV_QPS_RESET);
  a.connect(*senders[0], a.connected_attributes(receivers[0]->number(), 6));
  b.connect(*receivers[0], b.connected_attributes(senders[0]->number(), 5));
  ASSERT_EQ(post(100'000, 200, 1), 0);
  ASSERT_EQ(send(0, 0, 100), 0);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(1));
}

TEST_F(SharedReceiveTest, AResetDiscardsTheReceiveOfAnUnfinishedMessage) {
  ASSERT_EQ(post(100'000, 40'000, 1), 0);
  network.room = 1;
  ASSERT_EQ(send(0, 0, 40'000), 0);
  while (shared.waiting() != 0) ASSERT_TRUE(network.step());
  b.modify(*receivers[0], IBV_QPS_RESET);
  EXPECT_THAT(b.poll(), IsEmpty());
  EXPECT_EQ(shared.waiting(), 0U);
  ASSERT_EQ(post(200'000, 5000, 2), 0);
  ASSERT_EQ(send(1, 0, 10), 0);
  ASSERT_EQ(a.hca.destroy(*senders[0]).has_value(), true);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(2));
}

TEST_F(SharedReceiveTest, AReceiveThatIsTooShortFailsItsQueuePairOnly) {
  ASSERT_EQ(post(100'000, 10, 1), 0);
  ASSERT_EQ(post(200'000, 100, 2), 0);
  ASSERT_EQ(send(0, 0, 11), 0);
  network.run();
  const auto failed = b.poll();
  ASSERT_THAT(ids(failed), ElementsAre(1));
  EXPECT_EQ(failed[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(receivers[0]->state(), IBV_QPS_ERR);
  EXPECT_THAT(b.async_events(), testing::Contains(IBV_EVENT_QP_LAST_WQE_REACHED));
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_REM_INV_REQ_ERR);
  ASSERT_EQ(send(1, 0, 11), 0);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(2));
}

/// The domain of the queue counts, and not that of the queue pair (IBA 10.2.9.2).
TEST_F(SharedReceiveTest, MemoryOfAReceiveIsOfTheDomainOfTheQueue) {
  auto* const other = *b.hca.create_protection_domain();
  auto& queue = **b.hca.shared_receives().create({.pd = other, .attributes = {4, 1, 0}});
  auto with = b.config();
  with.type = IBV_QPT_RC;
  with.shared = &queue;
  auto& to = **b.hca.create_queue_pair(with);
  auto& from = a.make_connected();
  a.connect(from, a.connected_attributes(to.number(), 6));
  b.connect(to, b.connected_attributes(from.number(), 5));
  const auto own = *b.hca.register_memory(*other, b.area.data(), 1000, b.address(0), kAllAccess);
  std::array<ibv_sge, 2> elements = {ibv_sge{b.address(0), 100, own.key}, b.part(0, 100)};
  for (auto& element : elements) {
    ibv_recv_wr wr{1, nullptr, &element, 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(b.hca.shared_receives().post(queue, &wr, &bad), 0);
    ASSERT_EQ(a.post(from, ConnectedHost::request(IBV_WR_SEND), {a.part(0, 100)}), 0);
    network.run();
  }
  const auto received = b.poll();
  ASSERT_THAT(received, SizeIs(2));
  EXPECT_EQ(received[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(received[1].status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(SharedReceiveTest, PostingIsChecked) {
  std::array<ibv_sge, 3> elements{};
  ibv_recv_wr wr{1, nullptr, elements.data(), 3};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(b.hca.shared_receives().post(shared, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  wr.num_sge = -1;
  EXPECT_EQ(b.hca.shared_receives().post(shared, &wr, &bad), EINVAL);
  for (std::uint64_t id = 0; id < kReceives; ++id) ASSERT_EQ(post(0, 10, id), 0);
  EXPECT_EQ(post(0, 10, kReceives), ENOMEM);
  wr.num_sge = 0;
  EXPECT_EQ(b.hca.post_receive(*receivers[0], &wr, &bad), EINVAL) << "it has no queue of its own";
  ASSERT_EQ(send(0, 0, 10), 0);
  network.run();
  EXPECT_EQ(post(0, 10, 9), 0) << "a receive that is taken makes room";
}

TEST_F(SharedReceiveTest, TheFirstBadRequestOfAChainIsNamed) {
  auto sge = b.part(0, 8);
  ibv_recv_wr second{2, nullptr, &sge, static_cast<int>(kMaxSge) + 1};
  ibv_recv_wr first{1, &second, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(b.hca.shared_receives().post(shared, &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second);
}

TEST_F(SharedReceiveTest, AttributesAreChecked) {
  const auto creates = [&](ibv_srq_attr attr) {
    return b.hca.shared_receives().create({.pd = b.pd, .attributes = attr}).has_value();
  };
  EXPECT_TRUE(creates({kMaxQueueWr, 1, 0}));
  EXPECT_FALSE(creates({kMaxQueueWr + 1, 1, 0}));
  EXPECT_FALSE(creates({0, 1, 0}));
  EXPECT_TRUE(creates({1, kMaxSge, 1}));
  EXPECT_FALSE(creates({1, kMaxSge + 1, 0}));
  EXPECT_FALSE(creates({4, 1, 5}));
  EXPECT_FALSE(b.hca.shared_receives().modify(shared, {0, 0, kReceives + 1}, IBV_SRQ_LIMIT));
  EXPECT_FALSE(b.hca.shared_receives().modify(shared, {4, 0, 0}, 1 << 5));
  EXPECT_EQ(shared.attributes().max_wr, kReceives);
  for (std::size_t i = 3; i < kMaxSharedReceiveQueues; ++i) ASSERT_TRUE(creates({1, 1, 0})) << i;
  EXPECT_FALSE(creates({1, 1, 0}));
}

TEST_F(SharedReceiveTest, CanBeResized) {
  for (std::uint64_t id = 0; id < kReceives; ++id) ASSERT_EQ(post(1000 * id, 900, id), 0);
  EXPECT_FALSE(b.hca.shared_receives().modify(shared, {kReceives - 1, 0, 0}, IBV_SRQ_MAX_WR))
      << "they do not fit";
  ASSERT_TRUE(b.hca.shared_receives().modify(shared, {3 * kReceives, 0, 2 * kReceives},
                                             IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
  EXPECT_EQ(shared.attributes().max_wr, 3 * kReceives);
  EXPECT_EQ(shared.attributes().max_sge, 2U);
  EXPECT_EQ(shared.attributes().srq_limit, 2 * kReceives);
  for (std::uint64_t id = kReceives; id < 3 * kReceives; ++id) ASSERT_EQ(post(0, 900, id), 0);
  EXPECT_EQ(post(0, 10, 99), ENOMEM);
  ASSERT_EQ(send(0, 20'000, 900), 0);
  ASSERT_EQ(send(0, 30'000, 900), 0);
  network.run();
  EXPECT_THAT(ids(b.poll()), ElementsAre(0, 1));
  EXPECT_EQ(b.bytes(1000, 900), a.bytes(30'000, 900));
}

TEST_F(SharedReceiveTest, CannotBeDestroyedWhileInUse) {
  EXPECT_EQ(b.hca.shared_receives().destroy(shared).error().code, EBUSY);
  for (auto* const each : receivers) ASSERT_TRUE(b.hca.destroy(*each));
  auto* const pd = *b.hca.create_protection_domain();
  auto& last = **b.hca.shared_receives().create({.pd = pd, .attributes = {1, 1, 0}});
  EXPECT_EQ(b.hca.destroy(*pd).error().code, EBUSY);
  EXPECT_TRUE(b.hca.shared_receives().destroy(last));
  EXPECT_TRUE(b.hca.destroy(*pd));
  ASSERT_EQ(post(0, 10, 1), 0);
  EXPECT_TRUE(b.hca.shared_receives().destroy(shared)) << "with receives";
}

TEST_F(SharedReceiveTest, EventsOfADestroyedQueueAreDiscarded) {
  ASSERT_EQ(post(0, 100, 1), 0);
  set_limit(1);
  b.hca.clear_events();
  ASSERT_EQ(send(0, 0, 10), 0);
  network.run();
  EXPECT_THAT(b.async_events(), SizeIs(1));
  for (auto* const each : receivers) ASSERT_TRUE(b.hca.destroy(*each));
  ASSERT_TRUE(b.hca.shared_receives().destroy(shared));
  EXPECT_THAT(b.async_events(), IsEmpty());
}

}  // namespace
}  // namespace softib::hca
