// Shared receive queues as programs see them.
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

class SharedReceiveVerbsTest : public VerbsTest {
 protected:
  static constexpr std::uint32_t kReceives = 16;

  SharedReceiveVerbsTest() : srq_(make_srq()), near_qp_(near_.make_qp()), far_qp_(make_qp()) {}

  [[nodiscard]] ibv_srq* make_srq() {
    ibv_srq_init_attr init{this, {kReceives, 2, 7}};
    auto* const srq = ibv_create_srq(far_.pd, &init);
    EXPECT_NE(srq, nullptr);
    return srq;
  }
  [[nodiscard]] ibv_qp* make_qp() {
    auto init = far_.initial();
    init.srq = srq_;
    auto* const qp = ibv_create_qp(far_.pd, &init);
    EXPECT_NE(qp, nullptr);
    Side::bring_up(qp);
    return qp;
  }
  int post(std::uint64_t id) {
    auto sge = far_.element(100 * id, 100);
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_, &wr, &bad);
  }
  /// Waits until it has arrived.
  void send(const std::string& text) {
    auto* const ah = near_.handle(far_lid());
    ASSERT_EQ(near_.send(near_qp_, ah, far_qp_->qp_num, text), 0);
    EXPECT_EQ(near_.next_completion().opcode, IBV_WC_SEND);
    received_ = far_.next_completion();
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  [[nodiscard]] ibv_async_event next_event() const {
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(far_.context, &event), 0);
    return event;
  }

  ibv_srq* srq_;
  ibv_qp* near_qp_;
  ibv_qp* far_qp_;
  ibv_wc received_{};
};

TEST_F(SharedReceiveVerbsTest, DatagramsTakeItsReceives) {
  EXPECT_EQ(srq_->context, far_.context);
  EXPECT_EQ(srq_->srq_context, this);
  EXPECT_EQ(srq_->pd, far_.pd);
  ASSERT_EQ(post(3), 0);
  send("hello");
  EXPECT_EQ(received_.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received_.wr_id, 3U);
  EXPECT_EQ(received_.qp_num, far_qp_->qp_num);
  EXPECT_EQ(std::memcmp(far_.memory.data() + 300 + kGrh, "hello", 5), 0);
}

TEST_F(SharedReceiveVerbsTest, QueriesReportIt) {
  ibv_srq_attr attr{};
  ASSERT_EQ(ibv_query_srq(srq_, &attr), 0);
  EXPECT_EQ(attr.max_wr, kReceives);
  EXPECT_EQ(attr.max_sge, 2U);
  EXPECT_EQ(attr.srq_limit, 0U) << "a limit at its creation is ignored";
  ibv_qp_attr qp_attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(far_qp_, &qp_attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(init.srq, srq_);
  EXPECT_EQ(far_qp_->srq, srq_);
  EXPECT_EQ(init.cap.max_recv_wr, 0U);
}

TEST_F(SharedReceiveVerbsTest, AReachedLimitIsAnEventOfTheQueue) {
  ASSERT_EQ(post(1), 0);
  ibv_srq_attr attr{0, 0, 1};
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  send("hello");
  auto event = next_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_);
  ASSERT_EQ(ibv_destroy_qp(far_qp_), 0);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    destroyed = true;
  });
  // The thread that has taken the event fills the queue before it acknowledges.
  EXPECT_EQ(post(2), 0);
  EXPECT_EQ(ibv_query_srq(srq_, &attr), 0);
  ibv_srq_init_attr init{nullptr, {kReceives, 1, 0}};
  auto* const other = ibv_create_srq(far_.pd, &init);
  EXPECT_NE(other->handle, srq_->handle) << "its place is not free";
  EXPECT_EQ(ibv_destroy_srq(other), 0);
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
}

TEST_F(SharedReceiveVerbsTest, AnEventThatNobodyTookIsWithdrawn) {
  ASSERT_EQ(post(1), 0);
  ibv_srq_attr attr{0, 0, 1};
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  send("hello");
  EXPECT_TRUE(is_readable(far_.context->async_fd));
  ASSERT_EQ(ibv_destroy_qp(far_qp_), 0);
  EXPECT_EQ(ibv_destroy_srq(srq_), 0);
  EXPECT_FALSE(is_readable(far_.context->async_fd));
}

TEST_F(SharedReceiveVerbsTest, AQueuePairInErrTakesNoMore) {
  ASSERT_EQ(post(1), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(far_qp_, &attr, IBV_QP_STATE), 0);
  auto event = next_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, far_qp_);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_destroy_qp(far_qp_), 0);
  far_qp_ = make_qp();
  send("hello");
  EXPECT_EQ(received_.wr_id, 1U) << "the receive has stayed";
}

TEST_F(SharedReceiveVerbsTest, Errors) {
  EXPECT_EQ(ibv_destroy_srq(srq_), EBUSY);
  ibv_srq_attr attr{0, 0, kReceives + 1};
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(far_.post_receive(far_qp_), EINVAL);
  for (std::uint32_t i = 0; i < kReceives; ++i) ASSERT_EQ(post(i), 0);
  EXPECT_EQ(post(0), ENOMEM);
  ibv_srq_init_attr init{nullptr, {hca::kMaxQueueWr + 1, 1, 0}};
  errno = 0;
  EXPECT_EQ(ibv_create_srq(far_.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace softib::verbs
