#include "verbs/receive_queue.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "verbs/registered_memory.hpp"

namespace {
std::vector<ibv_mr*> deregistered;
}

/// Of the regions that the tests make.
extern "C" int ibv_dereg_mr(ibv_mr* region) {
  deregistered.push_back(region);
  return 0;
}

namespace ipoib::verbs {
namespace {

std::vector<std::uint64_t> posted;  ///< ids
std::size_t room = 0;               ///< for so many

int post(ibv_qp* /*qp*/, ibv_recv_wr* chain, ibv_recv_wr** refused) {
  for (auto* work = chain; work != nullptr; work = work->next) {
    if (posted.size() == room) {
      *refused = work;
      return ENOMEM;
    }
    posted.push_back(work->wr_id);
  }
  return 0;
}

class ReceiveQueueTest : public ::testing::Test {
 protected:
  ReceiveQueueTest() {
    posted.clear();
    room = 4;
    queue.create({.depth = 4, .size = 256, .id_flags = 0x100, .post = post});
    memory.add(queue.pool().arena(), MemoryRegion(&region));
  }

  ibv_mr region{};
  ibv_qp pair{};
  RegisteredMemory memory;
  UdCounters counters;
  ReceiveQueue queue{memory, counters};
};

TEST(RegisteredMemoryTest, KnowsTheKeyOfEachArenaAndDeregistersIt) {
  std::vector<std::uint8_t> arenas(300);
  ibv_mr first{};
  ibv_mr second{};
  first.lkey = 7;
  second.lkey = 8;
  deregistered.clear();
  {
    RegisteredMemory memory;
    memory.add(ConstBytes(arenas).first(100), MemoryRegion(&first));
    memory.add(ConstBytes(arenas).subspan(100), MemoryRegion(&second));
    EXPECT_EQ(memory.local_key(arenas.data()), 7U);
    EXPECT_EQ(memory.local_key(arenas.data() + 99), 7U);
    EXPECT_EQ(memory.local_key(arenas.data() + 100), 8U);
    EXPECT_EQ(memory.local_key(arenas.data() + 299), 8U);
    EXPECT_TRUE(deregistered.empty());
  }
  EXPECT_EQ(deregistered, (std::vector<ibv_mr*>{&first, &second}));
}

TEST_F(ReceiveQueueTest, PostsRefusedReceivesAgain) {
  room = 1;
  EXPECT_FALSE(queue.post(pair, 1));
  EXPECT_EQ(counters.post_refused, 1U);
  room = 4;
  EXPECT_TRUE(queue.post(pair, 1));
  EXPECT_EQ(posted.size(), 4U);
}

TEST_F(ReceiveQueueTest, PostsNothingAfterItWasStopped) {
  EXPECT_TRUE(queue.post(pair, 1));
  ASSERT_EQ(posted.size(), 4U);
  queue.stop();
  for (const auto id : std::exchange(posted, {})) EXPECT_TRUE(queue.complete(id));
  EXPECT_TRUE(queue.post(pair, 1));
  EXPECT_TRUE(posted.empty());
  queue.release_all();
  EXPECT_TRUE(queue.post(pair, 1));
  EXPECT_TRUE(posted.empty()) << "also after a reset";
}

}  // namespace
}  // namespace ipoib::verbs
