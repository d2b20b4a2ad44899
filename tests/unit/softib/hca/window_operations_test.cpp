// Work requests that bind and invalidate memory windows, among others on one queue.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

class WindowOperationsTest : public ConnectionTest {
 protected:
  explicit WindowOperationsTest(ibv_qp_type type = IBV_QPT_RC) : ConnectionTest(type) {
    bindable_.lkey = b.hca
                         .register_memory(*b.pd, b.area.data(), b.area.size(), b.address(0),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
                         ->key;
    window_.rkey = *b.hca.memory().add_window(*b.pd, IBV_MW_TYPE_2);
  }
  /// `b` binds its window to the bytes [offset, offset + size).
  [[nodiscard]] ibv_send_wr bind(std::size_t offset, std::size_t size,
                                 int access = IBV_ACCESS_REMOTE_WRITE) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {
        &window_, key(), {&bindable_, b.address(offset), size, static_cast<unsigned>(access)}};
    return wr;
  }
  [[nodiscard]] std::uint32_t key() const { return ibv_inc_rkey(window_.rkey); }
  [[nodiscard]] static ibv_send_wr invalidate(ibv_wr_opcode opcode, std::uint32_t which) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.invalidate_rkey = which;
    return wr;
  }
  /// The status of a write of `a` through the window.
  [[nodiscard]] ibv_wc_status write(std::size_t offset, std::size_t size) {
    EXPECT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_RDMA_WRITE, b.address(offset), key()),
                     {a.part(0, size)}),
              0);
    network.run();
    const auto done = a.poll();
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? IBV_WC_GENERAL_ERR : done[0].status;
  }
  void bind_now() {
    ASSERT_EQ(b.post(qb, bind(1000, 100), {}), 0);
    network.run();
    ASSERT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
  }

  ibv_mr bindable_{};
  ibv_mw window_{};
};

TEST_F(WindowOperationsTest, ThePeerWritesThroughTheWindow) {
  ASSERT_EQ(b.post(qb, bind(1000, 100), {}, 77), 0);
  network.run();
  const auto bound = b.poll();
  ASSERT_THAT(statuses(bound), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(bound[0].opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(bound[0].wr_id, 77U);
  EXPECT_EQ(write(1000, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(b.bytes(1000, 100), a.bytes(0, 100));
  EXPECT_EQ(write(1001, 100), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(WindowOperationsTest, AWindowOfOneByteTakesThatByte) {
  ASSERT_EQ(b.post(qb, bind(1000, 1), {}), 0);
  network.run();
  EXPECT_EQ(write(1000, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(write(1001, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(WindowOperationsTest, TheKeyIsValidWhenTheMessageAfterTheBindingArrives) {
  ASSERT_EQ(a.post_receive(qa, 0, 100), 0);
  ASSERT_EQ(b.post(qb, remote(IBV_WR_RDMA_WRITE, 0), {b.part(0, 0)}, 1), 0);
  ASSERT_EQ(b.post(qb, bind(1000, 100), {}, 2), 0);
  ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_SEND), {b.part(0, 8)}, 3), 0);
  std::optional<ibv_wc_status> written;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (packet.opcode != ipoib::wire::ConnectedOpcode::send_only || written) return;
    const auto memory = b.address(1000);
    written = IBV_WC_SUCCESS;
    EXPECT_EQ(
        a.post(qa, ConnectedHost::request(IBV_WR_RDMA_WRITE, memory, key()), {a.part(0, 100)}, 9),
        0);
  };
  network.run();
  EXPECT_TRUE(written);
  EXPECT_THAT(statuses(a.poll()), Each(IBV_WC_SUCCESS));
  EXPECT_EQ(b.bytes(1000, 100), a.bytes(0, 100));
}

/// Completions keep the order of the requests, whatever the network does.
TEST_F(WindowOperationsTest, CompleteInOrder) {
  network.faults = {100, 50, 50};
  std::vector<std::uint64_t> expected;
  for (std::uint64_t round = 0; round < 8; ++round) {
    const auto id = 10 * round;
    ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_RDMA_WRITE, a.address(0), a.all.key),
                     {b.part(0, 5000)}, id),
              0);
    ASSERT_EQ(b.post(qb, bind(1000, 100), {}, id + 1), 0);
    ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_RDMA_READ, a.address(0), a.all.key),
                     {b.part(0, 3000)}, id + 2),
              0);
    ASSERT_EQ(b.post(qb, invalidate(IBV_WR_LOCAL_INV, key()), {}, id + 3), 0);
    for (std::uint64_t i = 0; i < 4; ++i) expected.push_back(id + i);
    window_.rkey = key();
  }
  network.run();
  const auto done = b.poll();
  EXPECT_THAT(statuses(done), Each(IBV_WC_SUCCESS));
  std::vector<std::uint64_t> ids;
  for (const auto& wc : done) ids.push_back(wc.wr_id);
  EXPECT_EQ(ids, expected);
  EXPECT_GT(b.hca.counters().at(1).retries, 0U);
}

TEST_F(WindowOperationsTest, ABindingThatIsNotAllowedFailsInItsOrder) {
  ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_RDMA_WRITE, a.address(0), a.all.key),
                   {b.part(0, 5000)}, 1),
            0);
  ASSERT_EQ(b.post(qb, bind(b.area.size() - 10, 11), {}, 2), 0);
  ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_SEND), {b.part(0, 8)}, 3), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()),
              ElementsAre(IBV_WC_SUCCESS, IBV_WC_MW_BIND_ERR, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(qb.state(), IBV_QPS_ERR);
}

TEST_F(WindowOperationsTest, AFencedBindingWaitsForReads) {
  ASSERT_EQ(b.post(qb, ConnectedHost::request(IBV_WR_RDMA_READ, a.address(0), a.all.key),
                   {b.part(0, 3000)}, 1),
            0);
  ASSERT_EQ(b.post(qb, bind(1000, 100), {}, 2, IBV_SEND_FENCE | IBV_SEND_SIGNALED), 0);
  ASSERT_TRUE(network.step());
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 0U);
  network.run();
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 1U);
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
}

TEST_F(WindowOperationsTest, ALocalInvalidationEndsTheAccess) {
  bind_now();
  ASSERT_EQ(b.post(qb, invalidate(IBV_WR_LOCAL_INV, key()), {}), 0);
  network.run();
  const auto done = b.poll();
  ASSERT_THAT(statuses(done), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(done[0].opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(1000, 100), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(WindowOperationsTest, InvalidatingAnUnboundWindowFails) {
  ASSERT_EQ(b.post(qb, invalidate(IBV_WR_LOCAL_INV, key()), {}), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_MW_BIND_ERR));
}

TEST_F(WindowOperationsTest, ASendInvalidatesTheWindowOfItsReceiver) {
  bind_now();
  for (const std::size_t size : {8U, 3000U}) {
    ASSERT_EQ(b.post_receive(qb, 0, 4000), 0);
    ASSERT_EQ(a.post(qa, invalidate(IBV_WR_SEND_WITH_INV, key()), {a.part(0, size)}), 0);
    network.run();
    const auto sent = a.poll();
    ASSERT_THAT(statuses(sent), ElementsAre(IBV_WC_SUCCESS));
    EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
    const auto received = b.poll();
    ASSERT_THAT(statuses(received), ElementsAre(IBV_WC_SUCCESS));
    EXPECT_EQ(received[0].wc_flags, IBV_WC_WITH_INV);
    EXPECT_EQ(received[0].invalidated_rkey, key());
    EXPECT_EQ(received[0].byte_len, size);
    EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 0U);
    window_.rkey = key();
    bind_now();
  }
}

/// A packet that comes twice must not meet the next binding.
TEST_F(WindowOperationsTest, ARepeatedSendInvalidatesOnce) {
  bind_now();
  ASSERT_EQ(b.post_receive(qb, 0, 100), 0);
  bool is_first = true;
  network.is_lost = [&](const ConnectedPacket& packet) {
    return packet.opcode == ipoib::wire::ConnectedOpcode::acknowledge &&
           std::exchange(is_first, false);
  };
  ASSERT_EQ(a.post(qa, invalidate(IBV_WR_SEND_WITH_INV, key()), {a.part(0, 8)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(b.hca.counters().at(1).duplicates, 1U);
}

/// The message has come, and is acknowledged; only its receiver notices the error.
TEST_F(WindowOperationsTest, ASendThatInvalidatesAnotherKeyIsAnErrorOfItsReceiver) {
  bind_now();
  ASSERT_EQ(b.post_receive(qb, 0, 100), 0);
  (void)b.post_receive(qb, 200, 100, 3);
  ASSERT_EQ(a.post(qa, invalidate(IBV_WR_SEND_WITH_INV, bindable_.lkey), {a.part(0, 8)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(b.bytes(0, 8), a.bytes(0, 8));
  EXPECT_EQ(qa.state(), IBV_QPS_RTS);
  EXPECT_EQ(qb.state(), IBV_QPS_ERR);
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 1U);
}

TEST_F(WindowOperationsTest, ResettingTheQueuePairInvalidatesItsWindows) {
  bind_now();
  b.modify(qb, IBV_QPS_RESET);
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 0U);
}

TEST_F(WindowOperationsTest, DestroyingTheQueuePairInvalidatesItsWindows) {
  bind_now();
  ASSERT_TRUE(b.hca.destroy(qb));
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 0U);
}

TEST_F(WindowOperationsTest, ABindingWithoutAWindowIsRefused) {
  auto wr = bind(0, 1);
  wr.bind_mw.mw = nullptr;
  EXPECT_EQ(b.post(qb, wr, {}), EINVAL);
}

TEST_F(WindowOperationsTest, PostedInErrorAreFlushed) {
  b.modify(qb, IBV_QPS_ERR);
  ASSERT_EQ(b.post(qb, bind(1000, 100), {}), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(b.hca.memory().find(bindable_.lkey)->windows, 0U);
}

struct UnreliableWindowsTest : WindowOperationsTest {
  UnreliableWindowsTest() : WindowOperationsTest(IBV_QPT_UC) {}
};

TEST_F(UnreliableWindowsTest, AreBoundAndInvalidatedLocally) {
  bind_now();
  EXPECT_EQ(write(1000, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(b.bytes(1000, 100), a.bytes(0, 100));
  EXPECT_EQ(a.post(qa, invalidate(IBV_WR_SEND_WITH_INV, key()), {a.part(0, 8)}), EINVAL);
  ASSERT_EQ(b.post(qb, invalidate(IBV_WR_LOCAL_INV, key()), {}, 1), 0);
  ASSERT_EQ(b.post(qb, invalidate(IBV_WR_LOCAL_INV, key()), {}, 2), 0);
  network.run();
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_MW_BIND_ERR));
  EXPECT_EQ(qb.state(), IBV_QPS_SQE);
}

}  // namespace
}  // namespace softib::hca
