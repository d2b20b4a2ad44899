// Two UdQueuePairs on one port, which send to each other.
#include <dlfcn.h>

#include "ud_queue_pair_fixture.hpp"

namespace {
bool detach_works = true;
ibv_cq* last_cq = nullptr;  ///< created last
}  // namespace

/// Fails if a test asks for that.
extern "C" int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_detach_mcast)>(dlsym(RTLD_NEXT, "ibv_detach_mcast"));
  return detach_works ? verb(qp, gid, lid) : EBUSY;
}

extern "C" ibv_cq* ibv_create_cq(ibv_context* context, int size, void* user,
                                 ibv_comp_channel* channel, int vector) {
  static const auto verb =
      reinterpret_cast<ibv_cq* (*)(ibv_context*, int, void*, ibv_comp_channel*, int)>(
          dlsym(RTLD_NEXT, "ibv_create_cq"));
  return last_cq = verb(context, size, user, channel, vector);
}

namespace ipoib::verbs {
namespace {

const Gid kGroup({0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x70, 0x01});
constexpr Lid kGroupLid{0xc070};

TEST_F(UdQueuePairTest, DeliversDatagramsOfEverySize) {
  // Around the inline limit, and up to the MTU.
  for (const std::size_t size : {4, 5, 127, 128, 129, 1024, 2047, 2048}) {
    ASSERT_EQ(a_->send(to_b(size, 9)), 1U);
    const auto got = b_->receive(1);
    ASSERT_EQ(got.size(), 1U) << size;
    ASSERT_EQ(got[0].frame.size(), size);
    std::vector<std::uint8_t> wanted(size);
    std::iota(wanted.begin(), wanted.end(), std::uint8_t{9});
    EXPECT_TRUE(std::ranges::equal(std::as_const(got[0].frame).bytes(), wanted)) << size;
    EXPECT_EQ(got[0].source_qpn, a_->qp->qpn());
    EXPECT_EQ(got[0].source_lid, port_.lid);
    EXPECT_FALSE(got[0].has_grh);
    EXPECT_EQ(got[0].frame.headroom(), wire::kGrhSize);
  }
}

TEST_F(UdQueuePairTest, ReadsTheGlobalRouteHeader) {
  auto vector = vector_to(port_.lid);
  vector.global.emplace().dgid = port_.gid;
  const auto handle = a_->qp->create_address_handle(vector).value();
  ASSERT_EQ(a_->send(a_->datagram(handle, b_->qp->qpn(), 64, 0)), 1U);
  const auto got = b_->receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got[0].has_grh);
  EXPECT_EQ(got[0].source_gid, port_.gid);
  EXPECT_EQ(got[0].destination_gid, port_.gid);
  a_->settle();
}

TEST_F(UdQueuePairTest, SendsAChainInOrderAndGivesItsFramesBack) {
  constexpr std::size_t kCount = 200;
  std::vector<Outgoing> batch;
  for (std::size_t i = 0; i < kCount; ++i) {
    batch.push_back(to_b(300, static_cast<std::uint8_t>(i)));
  }
  EXPECT_EQ(a_->qp->send(batch), kCount);
  batch.clear();
  const auto got = b_->receive(kCount);
  ASSERT_EQ(got.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(std::as_const(got[i].frame).bytes()[0], static_cast<std::uint8_t>(i));
  }
  a_->settle();
  EXPECT_EQ(a_->qp->send_progress().in_flight, 0U);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  EXPECT_EQ(handle_->use_count(), 1U) << "no send refers to the address handle";
}

TEST_F(UdQueuePairTest, SegmentsLargePackets) {
  for (const std::uint32_t max_tso : {QueueDepths().max_tso, 0U}) {
    make_sides({.max_tso = max_tso});
    std::vector<Outgoing> batch;
    batch.push_back(large_tcp(to_b(300, 0), 3500));
    batch.push_back(to_b(300, 7));
    EXPECT_EQ(a_->qp->send(batch), 2U);
    const auto got = b_->receive(5);
    ASSERT_EQ(got.size(), 5U);
    std::vector<std::uint8_t> payload;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto part = std::as_const(got[i].frame).bytes().subspan(44);
      payload.insert(payload.end(), part.begin(), part.end());
    }
    EXPECT_EQ(got[3].frame.size(), 44U + 500);
    std::vector<std::uint8_t> wanted(3500);
    std::iota(wanted.begin(), wanted.end(), std::uint8_t{0});
    EXPECT_EQ(payload, wanted);
    EXPECT_EQ(got[4].frame.size(), 300U) << "the packet behind keeps its order";
    EXPECT_GT(a_->qp->send_progress().in_flight, 0U) << "too few datagrams for a completion";
    for (std::size_t i = got.size(); i < kSignalPeriod; ++i) (void)a_->send(to_b(300, 0));
    std::vector<Incoming> none;
    while (a_->qp->send_progress().in_flight != 0) a_->qp->receive(none, 1);
    EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
    EXPECT_EQ(a_->qp->counters().large_packets, 1U);
    EXPECT_EQ(a_->qp->counters().segments, 4U);
  }
}

TEST_F(UdQueuePairTest, AcceptsALargePacketAsAWholeOrNot) {
  make_sides({.receive = 256, .send = 128, .max_tso = 0});
  std::vector<Outgoing> batch;
  for (int i = 0; i < 40; ++i) batch.push_back(large_tcp(to_b(300, 0), 3500));
  EXPECT_EQ(a_->qp->send(batch), 32U);
  EXPECT_TRUE(batch[32].frame.is_large());
  EXPECT_TRUE(a_->qp->can_send_large_packets());
  EXPECT_EQ(b_->receive(128).size(), 128U);
  batch.clear();
  a_->settle();
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
}

TEST_F(UdQueuePairTest, AcceptsPacketsThatFitIntoItsSendQueue) {
  make_sides({.receive = 128, .send = 16});
  EXPECT_FALSE(a_->qp->can_send_large_packets());
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < 40; ++i) batch.push_back(to_b(300, i));
  EXPECT_EQ(a_->qp->send(batch), 16U);
  EXPECT_EQ(a_->qp->counters().send_queue_full, 1U);
  EXPECT_FALSE(batch[15].frame);
  EXPECT_TRUE(batch[16].frame) << "frames that were not posted stay with the caller";
  EXPECT_EQ(a_->qp->send(std::span(batch).subspan(16)), 0U);
  a_->settle();
  EXPECT_EQ(a_->qp->send(std::span(batch).subspan(16)), 16U);
  EXPECT_EQ(b_->receive(32).size(), 32U);
}

/// Once it has been signalled, the period begins anew.
TEST_F(UdQueuePairTest, HasACompletionOncePerSignalPeriod) {
  std::vector<Incoming> none;
  for (std::size_t i = 0; i < kSignalPeriod; ++i) ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  EXPECT_EQ(b_->receive(kSignalPeriod).size(), kSignalPeriod);
  while (a_->qp->send_progress().in_flight != 0) a_->qp->receive(none, 1);
  EXPECT_EQ(handle_->use_count(), 1U) << "no send refers to the address handle";
  for (std::size_t i = 1; i < kSignalPeriod; ++i) {
    ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
    EXPECT_EQ(b_->receive(1).size(), 1U);
    a_->qp->receive(none, 1);
    ASSERT_EQ(a_->qp->send_progress().in_flight, i) << "there is no completion yet";
  }
}

TEST_F(UdQueuePairTest, DropsDatagramsWithoutTheEncapsulationHeader) {
  for (const std::size_t size : {0U, 1U, 3U}) ASSERT_EQ(a_->send(to_b(size, 1)), 1U);
  ASSERT_EQ(a_->send(to_b(4, 1)), 1U);
  const auto got = b_->receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].frame.size(), 4U);
  EXPECT_EQ(b_->qp->counters().malformed, 3U);
}

TEST_F(UdQueuePairTest, CountsReceivesWithoutAFrame) {
  make_sides({.receive = 64, .send = 64});
  std::vector<Incoming> kept;
  for (int round = 0; round < 100 && b_->qp->counters().receive_starved == 0; ++round) {
    std::vector<Outgoing> batch;
    for (std::uint8_t i = 0; i < 32; ++i) batch.push_back(to_b(200, i));
    ASSERT_EQ(a_->qp->send(batch), 32U);
    auto got = b_->receive(32);
    std::ranges::move(got, std::back_inserter(kept));
    a_->settle();
  }
  EXPECT_GE(b_->qp->counters().receive_starved, 1U);
  EXPECT_GE(kept.size(), 64U);
  kept.clear();
  std::vector<Incoming> none;
  b_->qp->receive(none, 1);
  expect_connected();
}

TEST_F(UdQueuePairTest, IsRestartedForAnotherIndexOfThePKeyTable) {
  const auto other = static_cast<std::uint16_t>(pkey_index_ + 1);
  const auto configured = b_->qp->configure({other, kQKey});
  if (!configured) GTEST_SKIP() << "no other P_Key: " << configured.error().message;
  EXPECT_EQ(b_->qp->counters().bring_ups, 2U);
  b_->qp->configure(b_->attributes).value();
  EXPECT_EQ(b_->qp->counters().bring_ups, 3U);
  b_->qp->configure(b_->attributes).value();
  EXPECT_EQ(b_->qp->counters().bring_ups, 3U) << "nothing has changed";
  expect_connected();
}

TEST_F(UdQueuePairTest, ReceivesMoreThanItsRingHolds) {
  make_sides({.receive = 64, .send = 64});
  for (int round = 0; round < 20; ++round) {
    std::vector<Outgoing> batch;
    for (std::uint8_t i = 0; i < 32; ++i) batch.push_back(to_b(200, i));
    ASSERT_EQ(a_->qp->send(batch), 32U);
    ASSERT_EQ(b_->receive(32).size(), 32U) << round;
    a_->settle();
  }
  EXPECT_EQ(b_->qp->counters().receive_starved, 0U);
}

TEST_F(UdQueuePairTest, ChangesItsQKeyWhileUp) {
  constexpr QKey kOther{0x1234};
  const auto qpn = b_->qp->qpn();
  b_->qp->configure({pkey_index_, kOther}).value();
  ASSERT_EQ(a_->send(to_b(50, 1)), 1U);  // dropped: wrong Q_Key
  a_->qp->configure({pkey_index_, kOther}).value();
  ASSERT_EQ(a_->send(to_b(60, 2)), 1U);
  const auto got = b_->receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].frame.size(), 60U);
  EXPECT_EQ(b_->qp->qpn(), qpn);
  EXPECT_EQ(b_->qp->counters().bring_ups, 1U);
}

TEST_F(UdQueuePairTest, FailsAndIsRestartedWithTheSameNumber) {
  const auto qpn = a_->qp->qpn();
  ASSERT_EQ(a_->send(to_b(4096 + 32, 0)), 1U);  // over the MTU: a local length error
  a_->settle(true);
  EXPECT_TRUE(a_->qp->is_broken());
  EXPECT_EQ(a_->qp->counters().send_errors, 1U);
  ASSERT_TRUE(a_->qp->restart());
  EXPECT_FALSE(a_->qp->is_broken());
  EXPECT_EQ(a_->qp->qpn(), qpn);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  expect_connected();
}

TEST_F(UdQueuePairTest, ReturnsAllFramesWhenBroughtDown) {
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < 100; ++i) batch.push_back(to_b(300, i));
  ASSERT_EQ(a_->qp->send(batch), 100U);
  ASSERT_TRUE(a_->qp->bring_down());
  EXPECT_FALSE(a_->qp->is_up());
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  EXPECT_EQ(a_->send(to_b(100, 0)), 0U) << "a queue pair that is down accepts nothing";
  ASSERT_TRUE(a_->qp->configure(a_->attributes));
  (void)b_->receive(100);
  expect_connected();
}

TEST_F(UdQueuePairTest, IsRecreatedWithAnotherNumberInTheSameGroups) {
  const auto before = b_->qp->qpn();
  b_->qp->attach(kGroup, kGroupLid).value();
  b_->qp->recreate().value();
  EXPECT_NE(b_->qp->qpn(), before);
  EXPECT_FALSE(b_->qp->is_up());
  b_->qp->configure(b_->attributes).value();
  expect_connected();
  EXPECT_TRUE(b_->qp->detach(kGroup, kGroupLid));
  EXPECT_FALSE(b_->qp->detach(kGroup, kGroupLid));
  b_->qp->recreate().value();
  EXPECT_FALSE(b_->qp->detach(kGroup, kGroupLid)) << "a group that was left is not attached again";
}

/// The queue pair of b is made to fail by the overrun of a completion queue with one entry.
TEST_F(UdQueuePairTest, DeviceTellsWhichCompletionQueueHasFailed) {
  auto events = AsyncEventReader::open(*device_).value();
  while (events.next()) {
  }
  b_->qp->recreate().value();
  b_->qp->configure(b_->attributes).value();
  ibv_cq* const cq = last_cq;
  ASSERT_EQ(ibv_resize_cq(cq, 1), 0);
  for (int i = 0; i < 8; ++i) (void)a_->send(to_b(300, 0));
  std::optional<AsyncEventReader::Event> event;
  std::optional<AsyncEventReader::Event> of_cq;
  std::vector<Incoming> none;
  (void)b_->qp->receive(none, 64);  // the device completes the receives while it is polled
  while (!of_cq && wait_readable(events.descriptor())) {
    while ((event = events.next())) {
      if (event->object == cq) of_cq = event;
    }
  }
  ASSERT_TRUE(of_cq);
  EXPECT_EQ(of_cq->kind, AsyncEvent::queue_pair_fatal);
  b_->qp->on_object_failed(of_cq->object);
  EXPECT_TRUE(b_->qp->is_broken());
  // Destroys the queues, which waits until their events are acknowledged.
  b_->qp->recreate().value();
  b_->qp->configure(b_->attributes).value();
  expect_connected();
}

TEST_F(UdQueuePairTest, ReplacesACompletionQueueThatHasFailed) {
  b_->qp->recreate().value();
  b_->qp->configure(b_->attributes).value();
  ibv_cq* const failed = last_cq;
  b_->qp->arm();
  ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  ASSERT_TRUE(wait_readable(b_->qp->descriptor())) << "an event that is not acknowledged yet";
  a_->qp->on_object_failed(failed);
  EXPECT_FALSE(a_->qp->is_broken()) << "it is another one's";
  b_->qp->on_object_failed(failed);
  EXPECT_TRUE(b_->qp->is_broken());
  EXPECT_EQ(b_->qp->restart().error().message,
            "the completion queue has failed: the interface gets a new one")
      << "the same completion queue would be used";
  b_->qp->recreate().value();
  EXPECT_NE(last_cq, failed);
  EXPECT_FALSE(b_->qp->is_broken());
  b_->qp->configure(b_->attributes).value();
  expect_connected();
}

TEST_F(UdQueuePairTest, KeepsItsFramesIfTheQueuePairCannotBeDestroyed) {
  const auto before = a_->qp->qpn();
  a_->qp->attach(kGroup, kGroupLid).value();
  ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  detach_works = false;
  const auto recreated = a_->qp->recreate();
  detach_works = true;
  EXPECT_FALSE(recreated);
  EXPECT_EQ(a_->qp->qpn(), before);
  EXPECT_EQ(a_->qp->send_progress().in_flight, 1U);
  EXPECT_LT(a_->pool.available(), a_->pool.capacity());
  a_->qp->recreate().value();
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
}

TEST_F(UdQueuePairTest, CountsReceivesThatAreLostWhenBroughtDown) {
  constexpr std::size_t kCount = kSignalPeriod;
  b_->qp->arm();
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  a_->settle();
  ASSERT_TRUE(a_->qp->restart());
  EXPECT_EQ(a_->qp->counters().sends_flushed, 0U) << "all had been sent";
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  while (b_->receive(1).empty()) {
  }
  ASSERT_TRUE(a_->qp->restart());
  EXPECT_EQ(a_->qp->counters().receives_lost, 0U) << "its completions are those of sends";
  ASSERT_TRUE(wait_readable(b_->qp->descriptor()));
  b_->qp->acknowledge_events();
  ASSERT_TRUE(b_->qp->restart());
  EXPECT_GE(b_->qp->counters().receives_lost, 1U);
  EXPECT_LE(b_->qp->counters().receives_lost, 2 * kCount);

  // The first is over the MTU, a local length error; the others are flushed.
  std::vector<Outgoing> batch;
  batch.push_back(to_b(4096 + 32, 0));
  for (std::size_t i = 1; i < kCount; ++i) batch.push_back(to_b(300, 0));
  ASSERT_EQ(a_->qp->send(batch), kCount);
  a_->settle(true);
  EXPECT_EQ(a_->qp->counters().send_errors, 1U);
  EXPECT_EQ(a_->qp->counters().sends_flushed, kCount - 1);
}

TEST_F(UdQueuePairTest, ExplainsWhyAnAddressHandleIsRefused) {
  auto vector = vector_to(Lid(7));
  vector.global.emplace().sgid_index = 255;  // larger than any GID table
  const auto handle = a_->qp->create_address_handle(vector);
  ASSERT_FALSE(handle);
  EXPECT_THAT(handle.error().message, ::testing::HasSubstr("LID 7"));
}

TEST_F(UdQueuePairTest, WakesOnceForACompletionAfterArming) {
  b_->qp->arm();
  EXPECT_FALSE(wait_readable(b_->qp->descriptor(), 0));
  ASSERT_EQ(a_->send(to_b(100, 0)), 1U);
  ASSERT_TRUE(wait_readable(b_->qp->descriptor()));
  b_->qp->acknowledge_events();
  EXPECT_FALSE(wait_readable(b_->qp->descriptor(), 0));
  EXPECT_EQ(b_->receive(1).size(), 1U);
}

}  // namespace
}  // namespace ipoib::verbs
