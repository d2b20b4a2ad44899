// On-demand regions: missing memory makes a request fail, on the right side.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr std::size_t kMissing = 5000;  ///< where the missing part of a region begins

class OnDemandTest : public ConnectionTest {
 protected:
  OnDemandTest() {
    for (auto* const host : {&a, &b}) {
      const auto region =
          *host->hca.register_memory(*host->pd, host->area.data(), 20'000, host->address(0),
                                     kAllAccess | IBV_ACCESS_ON_DEMAND);
      host->on_demand.missing = std::span(host->area).subspan(kMissing, 4096);
      keys[host == &b] = region.key;
    }
  }
  [[nodiscard]] ibv_sge local(std::size_t offset, std::size_t size) {
    return {a.address(offset), static_cast<std::uint32_t>(size), keys[0]};
  }
  [[nodiscard]] ibv_send_wr far(ibv_wr_opcode opcode, std::size_t offset) {
    return ConnectedHost::request(opcode, b.address(offset), keys[1]);
  }
  void expect(ibv_wc_status status) {
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(status));
  }

  std::array<std::uint32_t, 2> keys{};
};

TEST_F(OnDemandTest, MemoryThatIsThereIsUsed) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_WRITE, 10), {local(0, 2000), local(2500, 2000)}), 0);
  expect(IBV_WC_SUCCESS);
  EXPECT_EQ(b.bytes(10, 2000), a.bytes(0, 2000));
  EXPECT_EQ(b.bytes(2010, 2000), a.bytes(2500, 2000));
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_READ, 12'000), {local(100, 4000)}), 0);
  expect(IBV_WC_SUCCESS);
  EXPECT_EQ(a.bytes(100, 4000), b.bytes(12'000, 4000));
  b.set_word(16, 41);
  ASSERT_EQ(
      a.post(qa, ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(16), keys[1], 1),
             {local(0, 8)}),
      0);
  expect(IBV_WC_SUCCESS);
  EXPECT_EQ(b.word(16), 42U);
  EXPECT_EQ(a.word(0), 41U);
}

/// The copy is made when the packet is built: a sink may read packets later.
TEST_F(OnDemandTest, APieceIsSentFromACopy) {
  Outbox outbox;
  (void)outbox.append();
  const std::uint8_t plain = 1;
  std::uint8_t on_demand = 2;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(outbox.add({&on_demand, &a.on_demand}, 1));
  (void)outbox.append();
  on_demand = 3;
  ASSERT_TRUE(outbox.add({const_cast<std::uint8_t*>(&plain), nullptr}, 1));
  ASSERT_TRUE(outbox.add({&on_demand, &a.on_demand}, 1));
  ASSERT_TRUE(outbox.add({&on_demand, &a.on_demand}, 1));
  on_demand = 9;
  const auto& packet = outbox.packets()[1];
  ASSERT_EQ(packet.piece_count, 3U);
  EXPECT_EQ(packet.pieces[0].data(), &plain);
  EXPECT_EQ(packet.pieces[1][0], 3);
  EXPECT_EQ(packet.pieces[2][0], 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outbox.packets()[0].pieces[i][0], 2);
}

TEST_F(OnDemandTest, ASendFromMissingMemory) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_WRITE, 0), {local(kMissing - 1, 2)}), 0);
  expect(IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
}

TEST_F(OnDemandTest, AWriteToMissingMemory) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_WRITE, kMissing - 100), {local(0, 101)}), 0);
  expect(IBV_WC_REM_OP_ERR);
  EXPECT_THAT(b.async_events(), Contains(IBV_EVENT_QP_FATAL));
  EXPECT_EQ(qb.state(), IBV_QPS_ERR);
}

TEST_F(OnDemandTest, AReadOfMissingMemory) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_READ, kMissing - 3000), {local(0, 3001)}), 0);
  expect(IBV_WC_REM_OP_ERR);
  EXPECT_THAT(b.async_events(), Contains(IBV_EVENT_QP_FATAL));
}

TEST_F(OnDemandTest, AReadIntoMissingMemory) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_RDMA_READ, 0), {local(kMissing - 8, 100)}), 0);
  expect(IBV_WC_LOC_PROT_ERR);
}

TEST_F(OnDemandTest, AnAtomicOperationOnMissingMemory) {
  const auto at = b.address(kMissing + 8);
  ASSERT_EQ(a.post(qa, ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, at / 8 * 8, keys[1], 1),
                   {local(0, 8)}),
            0);
  expect(IBV_WC_REM_OP_ERR);
}

TEST_F(OnDemandTest, AnAtomicWriteToMissingMemory) {
  ASSERT_EQ(a.post(qa, far(IBV_WR_ATOMIC_WRITE, kMissing + 8), {local(0, 8)}), 0);
  expect(IBV_WC_REM_OP_ERR);
}

TEST_F(OnDemandTest, AReceiveIntoMissingMemory) {
  ibv_sge sge{b.address(kMissing), 100, keys[1]};
  ibv_recv_wr wr{1, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b.hca.post_receive(qb, &wr, &bad), 0);
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_SEND), {local(0, 8)}), 0);
  expect(IBV_WC_REM_OP_ERR);
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_LOC_PROT_ERR));
}

/// Programs poll the last bytes.
TEST_F(OnDemandTest, TheLastWordIsWrittenLast) {
  struct : OnDemandMemory {
    bool read(std::span<std::uint8_t>, const std::uint8_t*) override { return true; }
    bool write(std::uint8_t*, ConstBytes from) override {
      sizes.push_back(from.size());
      return true;
    }
    bool populate(std::uint8_t*, std::size_t) override { return true; }
    std::vector<std::size_t> sizes;
  } memory;
  alignas(8) std::array<std::uint8_t, 32> bytes{};
  EXPECT_TRUE(RegisteredMemory(bytes.data(), &memory).store_in_order(bytes));
  EXPECT_TRUE(RegisteredMemory(bytes.data(), &memory).store_in_order(std::span(bytes).first(9)));
  EXPECT_TRUE(RegisteredMemory(bytes.data(), &memory).store_in_order(std::span(bytes).first(1)));
  EXPECT_THAT(memory.sizes, ElementsAre(24, 8, 8, 1, 1));
}

class OnDemandDatagramTest : public HcaTest {
 protected:
  OnDemandDatagramTest() {
    for (auto* const host : {&a, &b}) {
      host->region = *host->hca.register_memory(*host->pd, host->memory.data(), 20'000,
                                                std::bit_cast<std::uint64_t>(host->memory.data()),
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
      host->on_demand.missing = std::span(host->memory).subspan(kMissing, 4096);
    }
  }
  /// Sends from one place to another. Returns the statuses of the send and the receive.
  [[nodiscard]] std::vector<ibv_wc_status> send(std::size_t from, std::size_t to) {
    auto& near = a.make_qp();
    auto& far = b.make_qp();
    EXPECT_EQ(b.receive_into(far, to, 200), 0);
    auto sge = a.element(from, 100);
    auto wr = a.send_request(a.handle(6), far.number(), sge);
    EXPECT_EQ(a.send(near, wr, sink), 0);
    deliver();
    std::vector<ibv_wc_status> statuses;
    for (auto* const host : {&a, &b}) {
      for (const auto& wc : host->poll()) statuses.push_back(wc.status);
    }
    return statuses;
  }
};

TEST_F(OnDemandDatagramTest, MemoryThatIsThereIsUsed) {
  std::iota(a.memory.begin(), a.memory.begin() + 100, std::uint8_t{1});
  EXPECT_THAT(send(0, 0), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 100, b.memory.begin() + kGrh));
}

TEST_F(OnDemandDatagramTest, MissingMemoryIsAnErrorOfTheSideThatHasIt) {
  EXPECT_THAT(send(kMissing, 0), ElementsAre(IBV_WC_LOC_PROT_ERR));
  EXPECT_THAT(send(0, kMissing - 100), ElementsAre(IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR));
}

/// What the port drops takes no place in the batch: a queue of more than one batch is dropped
/// whole.
TEST_F(OnDemandDatagramTest, AChainThatThePortDrops) {
  auto port = a.hca.ports()[1];
  port.state = PortState::down;
  a.hca.set_port(port);
  auto& near = a.make_qp();
  auto sge = a.element(0, 100);
  std::vector<ibv_send_wr> chain(kQueue, a.send_request(a.handle(6), Qpn(1), sge));
  for (std::size_t i = 1; i < chain.size(); ++i) chain[i - 1].next = &chain[i];
  ASSERT_GT(chain.size(), kSendBatch);
  ASSERT_EQ(a.send(near, chain.front(), sink), 0);
  EXPECT_THAT(sink.packets, testing::IsEmpty());
  EXPECT_THAT(a.poll(), testing::SizeIs(chain.size()));
}

TEST_F(OnDemandDatagramTest, ALongElementIsNotCopied) {
  auto& near = a.make_qp();
  a.region = *a.hca.register_memory(*a.pd, nullptr, ~std::uint64_t{0}, 0, IBV_ACCESS_ON_DEMAND);
  ibv_sge sge{4096, 1U << 30, a.region.key};
  auto wr = a.send_request(a.handle(6), Qpn(1), sge);
  ASSERT_EQ(a.send(near, wr, sink), 0);
  const auto done = a.poll();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, IBV_WC_LOC_LEN_ERR);
}

}  // namespace
}  // namespace softib::hca
