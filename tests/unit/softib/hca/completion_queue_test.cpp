#include "softib/hca/completion_queue.hpp"

#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using PushResult = CompletionQueue::PushResult;

class CompletionQueueTest : public testing::Test {
 protected:
  CompletionQueueTest() {
    completion.opcode = IBV_WC_RECV;
    completion.status = IBV_WC_SUCCESS;
  }
  PushResult push(std::uint64_t id, bool solicited = false) { return push(qp, id, solicited); }
  PushResult push(Qpn from, std::uint64_t id, bool solicited) {
    completion.wr_id = id;
    completion.qp_num = from.value();
    cq.next() = completion;
    return cq.push(nullptr, 0, solicited);
  }
  std::vector<std::uint64_t> poll_ids(std::size_t limit = 16) {
    std::vector<ibv_wc> out(limit);
    out.resize(static_cast<std::size_t>(cq.poll(out)));
    std::vector<std::uint64_t> ids;
    for (const auto& each : out) ids.push_back(each.wr_id);
    return ids;
  }
  ibv_wc completion{};
  CompletionQueue cq{3};
  Qpn qp{5};
  Qpn other{6};
};
using Ids = std::vector<std::uint64_t>;

TEST_F(CompletionQueueTest, FirstInFirstOutAroundTheRing) {
  for (std::uint64_t id = 0; id < 20; id += 2) {
    EXPECT_EQ(push(id), PushResult::stored);
    EXPECT_EQ(push(id + 1), PushResult::stored);
    EXPECT_EQ(poll_ids(1), Ids{id});
    EXPECT_EQ(poll_ids(), Ids{id + 1});
  }
}

TEST_F(CompletionQueueTest, OverrunIsPermanentAndStoredCompletionsCanBePolled) {
  for (std::uint64_t id = 0; id < 3; ++id) EXPECT_EQ(push(id), PushResult::stored);
  EXPECT_EQ(push(3), PushResult::overrun);
  EXPECT_EQ(poll_ids(), (Ids{0, 1, 2}));
  std::array<ibv_wc, 1> out;
  EXPECT_EQ(cq.poll(out), -1);
  EXPECT_EQ(push(4), PushResult::dropped);  // the overrun is reported once
}

TEST_F(CompletionQueueTest, NotifiesOnceForTheNextCompletion) {
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(1), PushResult::stored_and_notify);
  EXPECT_EQ(push(2), PushResult::stored);
}

TEST_F(CompletionQueueTest, NotifiesAtOnceForWhatHasNotBeenPolled) {
  push(0);
  EXPECT_TRUE(cq.arm(false));
  EXPECT_EQ(push(1), PushResult::stored) << "that was the event";
  EXPECT_EQ(poll_ids(1), Ids{0});
  EXPECT_TRUE(cq.arm(false));
  EXPECT_EQ(poll_ids(), Ids{1});
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(2), PushResult::stored_and_notify);
}

TEST_F(CompletionQueueTest, NotifiesOnceForACompletion) {
  EXPECT_FALSE(cq.arm(false));
  EXPECT_EQ(push(0), PushResult::stored_and_notify);
  EXPECT_FALSE(cq.arm(false)) << "it has had its event";
  EXPECT_EQ(push(1), PushResult::stored_and_notify);
  EXPECT_EQ(poll_ids(1), Ids{0});
  EXPECT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.arm(true));
  cq.discard(other);
  EXPECT_FALSE(cq.arm(false)) << "the other one has had its event, too";
  EXPECT_EQ(poll_ids(), Ids{1});
  EXPECT_EQ(push(2), PushResult::stored_and_notify);
}

TEST_F(CompletionQueueTest, SolicitedOnlyNotifiesAtOnceForSuchCompletions) {
  push(0);
  push(1, true);
  push(2);
  EXPECT_TRUE(cq.arm(true));
  EXPECT_EQ(poll_ids(1), Ids{0});
  EXPECT_FALSE(cq.arm(true)) << "it has had its event";
  EXPECT_EQ(poll_ids(1), Ids{1});
  EXPECT_FALSE(cq.arm(true));
  EXPECT_EQ(poll_ids(), Ids{2});
  push(other, 3, true);
  push(4);
  cq.discard(other);
  EXPECT_FALSE(cq.arm(true));
  EXPECT_TRUE(cq.arm(false)) << "overrides it";
}

TEST_F(CompletionQueueTest, SolicitedOnlyNotifiesForSolicitedOrUnsuccessfulCompletions) {
  EXPECT_FALSE(cq.arm(true));
  EXPECT_EQ(push(0, false), PushResult::stored);
  EXPECT_EQ(push(1, true), PushResult::stored_and_notify);
  poll_ids();
  EXPECT_FALSE(cq.arm(true));
  completion.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(push(2, false), PushResult::stored_and_notify);
}

TEST_F(CompletionQueueTest, SolicitedRequestDoesNotOverrideRequestForAny) {
  EXPECT_FALSE(cq.arm(false));
  EXPECT_FALSE(cq.arm(true));
  EXPECT_EQ(push(0, false), PushResult::stored_and_notify);
}

TEST_F(CompletionQueueTest, DiscardsCompletionsOfOneQueuePair) {
  push(0);
  push(other, 1, false);
  push(2);
  cq.discard(other);
  EXPECT_EQ(poll_ids(), (Ids{0, 2}));
}

TEST_F(CompletionQueueTest, ResizeKeepsCompletions) {
  push(0);
  push(1);
  EXPECT_EQ(poll_ids(1), Ids{0});
  push(2);
  push(3);
  EXPECT_FALSE(cq.resize(2));
  EXPECT_TRUE(cq.resize(10));
  EXPECT_EQ(poll_ids(), (Ids{1, 2, 3}));
  for (std::uint64_t id = 0; id < 10; ++id) EXPECT_EQ(push(id), PushResult::stored);
  EXPECT_EQ(push(10), PushResult::overrun);
}

class CompletionTimesTest : public testing::Test {
 protected:
  void push(const QueuePair& from, int at) {
    clock.now = ipoib::TimePoint(std::chrono::nanoseconds(at));
    cq.next().qp_num = from.number().value();
    EXPECT_EQ(cq.push(nullptr, 0, false), PushResult::stored);
  }
  std::vector<int> poll(std::size_t limit = 16) {
    std::vector<ibv_wc> out(limit);
    std::vector<ipoib::TimePoint> times(limit);
    const auto count = static_cast<std::size_t>(cq.poll(out, times));
    std::vector<int> found;
    for (const auto time : std::span(times).first(count)) {
      found.push_back(static_cast<int>(time.time_since_epoch() / std::chrono::nanoseconds(1)));
    }
    return found;
  }
  Host a{5};
  QueuePair& one = a.make_qp();
  QueuePair& other = a.make_qp();
  CompletionClock clock;
  CompletionQueue cq{4, &clock};
};

TEST_F(CompletionTimesTest, FollowTheirCompletions) {
  push(one, 10);
  push(other, 20);
  push(one, 30);
  push(other, 40);
  EXPECT_EQ(poll(1), (std::vector<int>{10}));
  cq.discard(one.number());
  push(one, 50);
  EXPECT_EQ(poll(1), (std::vector<int>{20}));
  push(one, 60);
  ASSERT_TRUE(cq.resize(20));
  EXPECT_EQ(poll(), (std::vector<int>{40, 50, 60}));
  push(other, 70);
  std::array<ibv_wc, 2> out{};
  EXPECT_EQ(cq.poll(out), 1) << "the times need not be read";
}

TEST_F(CompletionTimesTest, OnlyQueuesThatKeepTimesNeedAClock) {
  EXPECT_EQ(clock.users, 1U);
  {
    const CompletionQueue second(1, &clock);
    EXPECT_EQ(clock.users, 2U);
  }
  EXPECT_EQ(clock.users, 1U);
  auto* const timed = *a.hca.create_completion_queue(4, true);
  EXPECT_EQ(a.hca.clock().users, 1U);
  a.hca.clock().now = ipoib::TimePoint(std::chrono::nanoseconds(7));
  auto config = a.config();
  config.receive_cq = timed;
  auto& qp = a.make_qp(IBV_QPS_INIT, config);
  ASSERT_EQ(a.receive_into(qp, 0, 10), 0);
  a.modify(qp, IBV_QPS_ERR);
  std::array<ibv_wc, 1> out{};
  std::array<ipoib::TimePoint, 1> times{};
  EXPECT_EQ(timed->poll(out, times), 1);
  EXPECT_EQ(times[0], a.hca.clock().now);
}

using CqOverrunTest = HcaTest;

TEST_F(CqOverrunTest, MovesQueuePairsToErr) {
  auto config = a.config();
  config.send_cq = *a.hca.create_completion_queue(1);
  auto& qp = a.make_qp(IBV_QPS_RTS, config);
  auto& bystander = a.make_qp();
  ASSERT_EQ(a.receive_into(qp, 0, 100), 0);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(a.hca.events().empty());
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_EQ(a.async_events(), (std::vector<ibv_event_type>{IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL}));
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(bystander.state(), IBV_QPS_RTS);
  EXPECT_EQ(a.hca.counters().cq_overruns, 1U);
  EXPECT_EQ(a.poll().at(0).status,
            IBV_WC_WR_FLUSH_ERR);  // the receive, in the other completion queue
}

/// The bad send, flushed by the overrun, does not complete a second time with its own error.
TEST_F(CqOverrunTest, WhileABadSendWaitsForEarlierOnes) {
  auto config = a.config();
  config.send_cq = *a.hca.create_completion_queue(1);
  auto& qp = a.make_qp(IBV_QPS_RTS, config);
  auto sge = a.element(0, 4);
  auto good = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, good, sink), 0);
  auto port = a.hca.ports()[1];
  port.state = PortState::down;
  a.hca.set_port(port);
  auto nowhere = sge;
  nowhere.lkey = 0;
  auto bad = a.send_request(a.handle(6), Qpn(0x10000), nowhere);
  good.next = &bad;
  ASSERT_EQ(a.send(qp, good, sink), 0);
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(a.hca.counters().cq_overruns, 1U);
  EXPECT_EQ(a.hca.counters().send_errors, 0U);
}

}  // namespace
}  // namespace softib::hca
