// XRC: a connection has a sending and a receiving queue pair, and each request names the shared
// receive queue of the peer that it is for.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class XrcTest : public testing::Test {
 protected:
  XrcTest() {
    network.add(a.hca);
    network.add(b.hca);
    connect(sender, target);
  }
  QueuePair& make_sender() {
    auto with = a.config();
    with.type = IBV_QPT_XRC_SEND;
    with.receive_cq = nullptr;
    return **a.hca.create_queue_pair(with);
  }
  QueuePair& make_target(XrcDomain& of) {
    return **b.hca.create_queue_pair({.domain = &of, .type = IBV_QPT_XRC_RECV});
  }
  void connect(QueuePair& from, QueuePair& to) {
    a.connect(from, a.connected_attributes(to.number(), 6));
    b.connect(to, b.connected_attributes(from.number(), 5));
  }
  /// A queue with a protection domain and a completion queue of its own.
  struct Queue {
    explicit Queue(ConnectedHost& on, XrcDomain& of)
        : pd(*on.hca.create_protection_domain()),
          cq(*on.hca.create_completion_queue(64)),
          shared(*on.hca.shared_receives().create(
              {.pd = pd, .attributes = {16, 1, 0}, .domain = &of, .cq = cq})),
          region(*on.hca.register_memory(*pd, on.area.data(), on.area.size(), on.address(0),
                                         kAllAccess)) {}
    ProtectionDomain* pd;
    CompletionQueue* cq;
    SharedReceiveQueue* shared;
    MemoryRegion region;
  };
  int post(Queue& queue, std::size_t offset, std::size_t size, std::uint64_t id) {
    ibv_sge sge{b.address(offset), static_cast<std::uint32_t>(size), queue.region.key};
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return b.hca.shared_receives().post(*queue.shared, &wr, &bad);
  }
  static ibv_send_wr to(const Queue& queue, ibv_send_wr wr) {
    wr.qp_type.xrc.remote_srqn = queue.shared->number;
    return wr;
  }
  /// On the memory of host b from `offset` on, by the key of `queue`.
  ibv_send_wr remote(const Queue& queue, ibv_wr_opcode opcode, std::size_t offset) {
    return to(queue, ConnectedHost::request(opcode, b.address(offset), queue.region.key));
  }
  int send(const Queue& queue, std::size_t offset, std::size_t size) {
    return a.post(sender, to(queue, ConnectedHost::request(IBV_WR_SEND)), {a.part(offset, size)});
  }
  /// Sends an invalid request, which both sides notice.
  void expect_refused(ibv_wc_status status) {
    network.run();
    EXPECT_EQ(a.poll().at(0).status, status);
    EXPECT_EQ(sender.state(), IBV_QPS_ERR);
    EXPECT_EQ(target.state(), IBV_QPS_ERR);
  }

  ConnectedHost a{5};
  ConnectedHost b{6};
  XrcDomain& domain = **b.hca.shared_receives().open_domain();
  Queue first{b, domain};
  Queue second{b, domain};
  QueuePair& sender = make_sender();
  QueuePair& target = make_target(domain);
  Network network;
};

TEST_F(XrcTest, ARequestNamesTheQueueThatReceives) {
  EXPECT_NE(first.shared->number, second.shared->number);
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(post(id % 2 == 0 ? first : second, 100'000 + 5000 * id, 5000, id), 0);
  }
  for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(send(i < 2 ? second : first, 3000 * i, 3000), 0);
  network.run();
  EXPECT_THAT(a.poll(), SizeIs(4));
  EXPECT_THAT(b.poll(), IsEmpty());
  for (const bool is_second : {false, true}) {
    const auto received = Host::poll(is_second ? *second.cq : *first.cq);
    ASSERT_THAT(received, SizeIs(2));
    for (std::size_t n = 0; n < 2; ++n) {
      const auto& wc = received[n];
      const auto id = 2 * n + (is_second ? 1 : 0);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, id);
      EXPECT_EQ(wc.qp_num, target.number().value());
      EXPECT_EQ(wc.src_qp, sender.number().value());
      EXPECT_EQ(b.bytes(100'000 + 5000 * id, 3000),
                a.bytes(3000 * (n + (is_second ? 0 : 2)), 3000));
    }
  }
}

TEST_F(XrcTest, AllOperations) {
  ASSERT_EQ(post(first, 0, 0, 1), 0);
  ASSERT_EQ(a.post(sender, remote(first, IBV_WR_RDMA_WRITE, 100'000), {a.part(0, 9000)}), 0);
  ASSERT_EQ(a.post(sender, remote(first, IBV_WR_RDMA_WRITE_WITH_IMM, 200'000), {a.part(0, 3000)}),
            0);
  ASSERT_EQ(a.post(sender, remote(second, IBV_WR_RDMA_READ, 300'000), {a.part(400'000, 9000)}), 0);
  b.set_word(800, 40);
  const auto add =
      ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(800), second.region.key, 2);
  ASSERT_EQ(a.post(sender, to(second, add), {a.part(0, 8)}), 0);
  network.run();
  for (const auto& wc : a.poll()) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << wc.opcode;
  EXPECT_EQ(b.bytes(200'000, 3000), b.bytes(100'000, 3000));
  EXPECT_EQ(a.bytes(400'000, 9000), b.bytes(300'000, 9000));
  EXPECT_EQ(a.word(0), 40U);
  EXPECT_EQ(b.word(800), 42U);
  const auto received = Host::poll(*first.cq);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received[0].byte_len, 3000U);
}

TEST_F(XrcTest, OnTheWireRequestsAreOfTheExtendedService) {
  std::size_t requests = 0;
  network.on_packet = [&](const ConnectedPacket& packet) {
    EXPECT_EQ(packet.service, ipoib::wire::ConnectedService::extended);
    if (ipoib::wire::is_response(packet.opcode)) return;
    ++requests;
    EXPECT_EQ(packet.shared_queue, second.shared->number);
  };
  ASSERT_EQ(post(second, 0, 5000, 1), 0);
  ASSERT_EQ(send(second, 0, 5000), 0);
  network.run();
  EXPECT_EQ(requests, 5U);
}

TEST_F(XrcTest, AnEmptyQueueDelaysItsMessages) {
  ASSERT_EQ(send(first, 0, 100), 0);
  ASSERT_EQ(post(second, 0, 100, 1), 0);
  while (b.hca.counters().at(1).rnr_naks == 0) ASSERT_TRUE(network.step());
  ASSERT_EQ(post(first, 0, 100, 2), 0);
  network.run();
  EXPECT_THAT(Host::poll(*first.cq), SizeIs(1));
  EXPECT_THAT(Host::poll(*second.cq), IsEmpty());
}

TEST_F(XrcTest, TheLimitOfAQueueIsReached) {
  ASSERT_EQ(post(first, 0, 100, 1), 0);
  ASSERT_TRUE(b.hca.shared_receives().modify(*first.shared, {0, 0, 1}, IBV_SRQ_LIMIT));
  b.hca.clear_events();
  ASSERT_EQ(send(first, 0, 100), 0);
  network.run();
  EXPECT_THAT(b.async_events(), testing::Contains(IBV_EVENT_SRQ_LIMIT_REACHED));
}

/// The keys of one queue's domain give no access to requests that name another queue.
TEST_F(XrcTest, TheDomainOfTheNamedQueueCounts) {
  auto write = remote(first, IBV_WR_RDMA_WRITE, 0);
  write.qp_type.xrc.remote_srqn = second.shared->number;
  const auto before = b.bytes(0, 100);
  ASSERT_EQ(a.post(sender, write, {a.part(50, 100)}), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.bytes(0, 100), before);
}

TEST_F(XrcTest, TheDomainCountsForReads) {
  auto read = remote(first, IBV_WR_RDMA_READ, 0);
  read.qp_type.xrc.remote_srqn = second.shared->number;
  ASSERT_EQ(a.post(sender, read, {a.part(50, 100)}), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcTest, TheDomainCountsForAtomicOperations) {
  const auto add =
      ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(0), first.region.key, 2);
  ASSERT_EQ(a.post(sender, to(second, add), {a.part(0, 8)}), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcTest, AQueueOfAnotherXrcDomainIsRefused) {
  auto& other = **b.hca.shared_receives().open_domain();
  Queue queue{b, other};
  ASSERT_EQ(post(queue, 0, 100, 1), 0);
  ASSERT_EQ(send(queue, 0, 100), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
  EXPECT_THAT(b.async_events(), testing::Contains(IBV_EVENT_QP_ACCESS_ERR));
  EXPECT_EQ(queue.shared->waiting(), 1U);
}

TEST_F(XrcTest, AQueueOfConnectionsIsRefused) {
  auto& basic = **b.hca.shared_receives().create({.pd = b.pd, .attributes = {4, 1, 0}});
  auto wr = ConnectedHost::request(IBV_WR_SEND);
  wr.qp_type.xrc.remote_srqn = basic.number;
  ASSERT_EQ(a.post(sender, wr, {a.part(0, 100)}), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcTest, AnUnknownQueueIsRefused) {
  auto wr = ConnectedHost::request(IBV_WR_SEND);
  for (const std::uint32_t number : {kMaxQpn + 1, ~0U}) {
    wr.qp_type.xrc.remote_srqn = number;
    EXPECT_EQ(a.post(sender, wr, {a.part(0, 100)}), EINVAL);
  }
  wr.qp_type.xrc.remote_srqn = first.shared->number ^ 0x800000;  // of an earlier process
  ASSERT_EQ(a.post(sender, wr, {a.part(0, 100)}), 0);
  expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcTest, PartsOfAMessageForTwoQueuesAreRefused) {
  ASSERT_EQ(post(first, 0, 40'000, 1), 0);
  ASSERT_EQ(post(second, 0, 40'000, 2), 0);
  network.room = 1;
  ASSERT_EQ(send(first, 0, 40'000), 0);
  while (first.shared->waiting() != 0) ASSERT_TRUE(network.step());
  ConnectedPacket packet;
  packet.service = ipoib::wire::ConnectedService::extended;
  packet.opcode = ipoib::wire::ConnectedOpcode::send_last;
  packet.lrh.slid = Lid(5);
  packet.lrh.dlid = Lid(6);
  packet.bth.pkey = ipoib::kDefaultPKey;
  packet.bth.destination = target.number();
  packet.bth.psn = ipoib::wire::Psn(target.attributes().rq_psn);
  packet.shared_queue = second.shared->number;
  std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
  bytes.resize(packet.emit_headers(4, bytes));
  bytes.resize(bytes.size() + 4);
  b.hca.receive({bytes});
  const auto failed = Host::poll(*first.cq);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_THAT(Host::poll(*second.cq), IsEmpty());
  EXPECT_EQ(target.state(), IBV_QPS_ERR);
}

TEST_F(XrcTest, AQueueThatIsDestroyedDuringAMessage) {
  ASSERT_EQ(post(first, 0, 40'000, 1), 0);
  network.room = 1;
  ASSERT_EQ(send(first, 0, 40'000), 0);
  while (first.shared->waiting() != 0) ASSERT_TRUE(network.step());
  ASSERT_TRUE(b.hca.shared_receives().destroy(*first.shared));
  ASSERT_TRUE(b.hca.destroy(*first.cq));
  expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcTest, AnUnfinishedMessageIsFlushedToTheQueueItNames) {
  ASSERT_EQ(post(first, 0, 40'000, 1), 0);
  network.room = 1;
  ASSERT_EQ(send(first, 0, 40'000), 0);
  while (first.shared->waiting() != 0) ASSERT_TRUE(network.step());
  b.hca.clear_events();
  b.modify(target, IBV_QPS_ERR);
  EXPECT_EQ(Host::poll(*first.cq).at(0).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_THAT(b.async_events(), IsEmpty()) << "it is not bound to a shared queue";
}

/// A completion does not refer to the queue pair, which may be gone.
TEST_F(XrcTest, CompletionsSurviveTheirQueuePair) {
  ASSERT_EQ(post(first, 0, 100, 1), 0);
  ASSERT_EQ(send(first, 0, 100), 0);
  network.run();
  const auto number = target.number().value();
  ASSERT_TRUE(b.hca.destroy(target));
  const auto received = Host::poll(*first.cq);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].qp_num, number);
}

TEST_F(XrcTest, EachQueuePairHasOneSide) {
  ibv_sge sge = b.part(0, 8);
  ibv_recv_wr receive{1, nullptr, &sge, 1};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(b.hca.post_receive(target, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(a.hca.post_receive(sender, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(b.post(target, to(first, ConnectedHost::request(IBV_WR_SEND)), {}), EINVAL);
  // A sender that is told that its peer is a sender gets no answer.
  auto& other = **b.hca.create_queue_pair(
      {.pd = b.pd, .send_cq = b.cq, .cap = {1, 0, 1, 0, 0}, .type = IBV_QPT_XRC_SEND});
  auto& from = make_sender();
  auto attr = a.connected_attributes(other.number(), 6);
  attr.retry_cnt = 1;
  a.connect(from, attr);
  b.connect(other, b.connected_attributes(from.number(), 5));
  ASSERT_EQ(a.post(from, to(first, ConnectedHost::request(IBV_WR_SEND)), {}), 0);
  network.run();
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(b.hca.counters().at(1).drop_unknown_qp, 2U);
  // What only receives gets no answers.
  ConnectedPacket answer;
  answer.service = target.connection().service;
  answer.opcode = ipoib::wire::ConnectedOpcode::acknowledge;
  answer.lrh.slid = Lid(5);
  answer.lrh.dlid = Lid(6);
  answer.bth.pkey = ipoib::kDefaultPKey;
  answer.bth.destination = target.number();
  std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
  bytes.resize(answer.emit_headers(0, bytes));
  b.hca.receive({bytes});
  EXPECT_EQ(b.hca.counters().at(1).drop_unknown_qp, 3U);
}

TEST_F(XrcTest, ObjectsAreChecked) {
  EXPECT_FALSE(b.hca.create_queue_pair({.type = IBV_QPT_XRC_RECV}));
  EXPECT_FALSE(b.hca.create_queue_pair({.send_cq = b.cq, .type = IBV_QPT_XRC_SEND}));
  auto with = b.config();
  with.type = IBV_QPT_RC;
  with.shared = first.shared;
  EXPECT_FALSE(b.hca.create_queue_pair(with)) << "a queue of XRC is not for connections";
  EXPECT_FALSE(
      b.hca.shared_receives().create({.pd = b.pd, .attributes = {1, 1, 0}, .domain = &domain}));
  EXPECT_EQ(b.hca.shared_receives()
                .create({.pd = b.pd, .attributes = {1, 1, 0}, .cq = b.cq})
                .error()
                .message,
            "a shared receive queue needs a protection domain, and one of XRC a domain and a "
            "completion queue");
  EXPECT_EQ(b.hca.shared_receives().close(domain).error().code, EBUSY);
  EXPECT_EQ(b.hca.destroy(*first.cq).error().code, EBUSY);
  ASSERT_TRUE(b.hca.destroy(target));
  EXPECT_EQ(b.hca.shared_receives().close(domain).error().code, EBUSY) << "of its queues";
  ASSERT_TRUE(b.hca.shared_receives().destroy(*first.shared));
  ASSERT_TRUE(b.hca.shared_receives().destroy(*second.shared));
  EXPECT_TRUE(b.hca.destroy(*first.cq));
  EXPECT_TRUE(b.hca.shared_receives().close(domain));
}

TEST_F(XrcTest, DomainsWithTheSameNameAreOne) {
  const XrcDomainName name{1, 2};
  EXPECT_EQ(b.hca.shared_receives().open_domain(name).error().code, EAGAIN);
  auto* const one = *b.hca.shared_receives().open_domain(name, {.create = true});
  EXPECT_EQ(*b.hca.shared_receives().open_domain(name), one);
  EXPECT_EQ(*b.hca.shared_receives().open_domain(name, {.create = true}), one);
  EXPECT_TRUE(b.hca.shared_receives().close(*one));
  EXPECT_EQ(
      b.hca.shared_receives().open_domain(name, {.create = true, .exclusive = true}).error().code,
      EINVAL);
  EXPECT_NE(*b.hca.shared_receives().open_domain(XrcDomainName{1, 3}, {.create = true}), one);
  EXPECT_NE(*b.hca.shared_receives().open_domain(), &domain) << "those without a name are not";
  Queue queue{b, *one};
  EXPECT_TRUE(b.hca.shared_receives().close(*one)) << "it is still open";
  EXPECT_EQ(b.hca.shared_receives().close(*one).error().code, EBUSY);
  ASSERT_TRUE(b.hca.shared_receives().destroy(*queue.shared));
  EXPECT_TRUE(b.hca.shared_receives().close(*one));
  EXPECT_EQ(b.hca.shared_receives().open_domain(name).error().code, EAGAIN);
  for (std::size_t i = 3; i < kMaxXrcDomains; ++i)
    ASSERT_TRUE(b.hca.shared_receives().open_domain()) << i;
  EXPECT_EQ(b.hca.shared_receives().open_domain().error().message,
            "a process can have 1024 XRC domains on an HCA: close some");
}

/// Programs use the same code for RC and XRC.
TEST_F(XrcTest, AttributesOfTheOtherSideAreIgnored) {
  auto& from = make_sender();
  auto& to = make_target(domain);
  const auto modify = [](ConnectedHost& host, QueuePair& qp, ibv_qp_attr attr) {
    for (const auto& [state, mask] : {std::pair{IBV_QPS_INIT, kConnectedToInit},
                                      {IBV_QPS_RTR, kRcToRtr},
                                      {IBV_QPS_RTS, kRcToRts}}) {
      attr.qp_state = state;
      EXPECT_TRUE(host.hca.modify(qp, attr, mask)) << state;
    }
  };
  modify(a, from, a.connected_attributes(to.number(), 6));
  modify(b, to, b.connected_attributes(from.number(), 5));
  EXPECT_EQ(from.attributes().max_dest_rd_atomic, 0);
}

TEST_F(XrcTest, TransitionsRequireWhatEachSideHas) {
  constexpr auto kSend = IBV_QPT_XRC_SEND;
  constexpr auto kReceive = IBV_QPT_XRC_RECV;
  EXPECT_TRUE(is_transition(kSend, IBV_QPS_INIT, IBV_QPS_RTR, kUcToRtr));
  EXPECT_FALSE(is_transition(kSend, IBV_QPS_INIT, IBV_QPS_RTR, kRcToRtr));
  EXPECT_TRUE(is_transition(kSend, IBV_QPS_RTR, IBV_QPS_RTS, kRcToRts));
  EXPECT_FALSE(is_transition(kSend, IBV_QPS_RTR, IBV_QPS_RTS, kUcToRts | IBV_QP_TIMEOUT));
  EXPECT_TRUE(is_transition(kReceive, IBV_QPS_INIT, IBV_QPS_RTR, kRcToRtr));
  EXPECT_FALSE(is_transition(kReceive, IBV_QPS_INIT, IBV_QPS_RTR, kUcToRtr));
  EXPECT_TRUE(is_transition(kReceive, IBV_QPS_RTR, IBV_QPS_RTS, kUcToRts | IBV_QP_TIMEOUT));
  EXPECT_FALSE(is_transition(kReceive, IBV_QPS_RTR, IBV_QPS_RTS, kRcToRts));
  for (const auto type : {kSend, kReceive}) {
    EXPECT_TRUE(is_transition(type, IBV_QPS_RESET, IBV_QPS_INIT, kConnectedToInit));
    EXPECT_TRUE(is_transition(type, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_STATE));
    EXPECT_FALSE(is_transition(type, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
  }
}

}  // namespace
}  // namespace softib::hca
