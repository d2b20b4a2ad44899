// Atomic writes: 8 bytes at once.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::ConnectedOpcode;
using testing::ElementsAre;

class AtomicWriteTest : public ConnectionTest {
 protected:
  void expect_status(std::size_t offset, ibv_wc_status status) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_ATOMIC_WRITE, offset), {a.part(0, 8)}), 0);
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(status));
  }
  /// A region of b that begins at `begin`, and whose remote address is `address`.
  void expect_invalid_in_a_region(std::uint8_t* begin, std::uint64_t address) {
    const auto region = *b.hca.register_memory(*b.pd, begin, 100, address, kAllAccess);
    const auto before = b.area;
    ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_ATOMIC_WRITE, address, region.key),
                     {a.part(0, 8)}),
              0);
    network.run();
    EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_REM_INV_REQ_ERR));
    EXPECT_EQ(b.area, before);
  }
};

TEST_F(AtomicWriteTest, WritesAWord) {
  ASSERT_EQ(a.post(qa, remote(IBV_WR_ATOMIC_WRITE, 4096), {a.part(0, 3), a.part(100, 5)}), 0);
  network.run();
  const auto done = a.poll();
  ASSERT_THAT(statuses(done), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(done[0].opcode, IBV_WC_ATOMIC_WRITE);
  auto expected = a.bytes(0, 3);
  const auto rest = a.bytes(100, 5);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(b.bytes(4096, 8), expected);
}

/// ibv_wr_atomic_write() has inline data always.
TEST_F(AtomicWriteTest, InlineDataNeedsNoRoomInTheQueuePair) {
  auto with = a.config();
  with.type = IBV_QPT_RC;
  with.cap.max_inline_data = 0;
  auto& qp = **a.hca.create_queue_pair(with);
  b.modify(qb, IBV_QPS_RESET);
  a.connect(qp, a.connected_attributes(qb.number(), 6));
  b.connect(qb, b.connected_attributes(qp.number(), 5));
  const auto word = a.bytes(0, 8);
  ASSERT_EQ(a.post(qp, remote(IBV_WR_ATOMIC_WRITE, 4096), {a.part(0, 8)}, 1,
                   IBV_SEND_INLINE | IBV_SEND_SIGNALED),
            0);
  a.set_word(0, 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(b.bytes(4096, 8), word);
}

TEST_F(AtomicWriteTest, IsChecked) {
  EXPECT_EQ(a.post(qa, remote(IBV_WR_ATOMIC_WRITE, 0), {a.part(0, 7)}), EINVAL);
  EXPECT_EQ(a.post(qa, remote(IBV_WR_ATOMIC_WRITE, 0), {a.part(0, 16)}), EINVAL);
  expect_status(4, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(AtomicWriteTest, OfMemoryThatIsNotAlignedIsInvalid) {
  expect_invalid_in_a_region(b.area.data() + 4, 0x10000);
}

TEST_F(AtomicWriteTest, OfAlignedMemoryAtAnOddAddressIsInvalid) {
  expect_invalid_in_a_region(b.area.data(), 0x10004);
}

TEST_F(AtomicWriteTest, NeedsRemoteWriteAccess) {
  const auto address = std::bit_cast<std::uint64_t>(b.memory.data()) / 8 * 8 + 8;
  ASSERT_EQ(a.post(qa, ConnectedHost::request(IBV_WR_ATOMIC_WRITE, address, b.region.key),
                   {a.part(0, 8)}),
            0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_REM_ACCESS_ERR));
}

/// One that comes twice is answered twice, and executed once: the word may have been written by
/// another meanwhile.
TEST_F(AtomicWriteTest, IsExecutedOnce) {
  bool is_first = true;
  network.is_lost = [&](const ConnectedPacket& packet) {
    if (packet.opcode != ConnectedOpcode::read_response_only || !std::exchange(is_first, false)) {
      return false;
    }
    EXPECT_TRUE(packet.payload.empty());
    b.set_word(4096, 0xfeed);
    return true;
  };
  expect_status(4096, IBV_WC_SUCCESS);
  EXPECT_EQ(b.word(4096), 0xfeedU);
  EXPECT_EQ(b.hca.counters().at(1).duplicates, 1U);
}

TEST_F(AtomicWriteTest, CompletesOverAFaultyNetwork) {
  network.faults = {100, 50, 50};
  for (std::size_t i = 0; i < 32; ++i) {
    a.set_word(8 * i, 1000 + i);
    ASSERT_EQ(a.post(qa, remote(IBV_WR_ATOMIC_WRITE, 8 * i), {a.part(8 * i, 8)}), 0);
  }
  network.run();
  EXPECT_THAT(statuses(a.poll()), testing::Each(IBV_WC_SUCCESS));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(b.word(8 * i), 1000 + i);
}

}  // namespace
}  // namespace softib::hca
