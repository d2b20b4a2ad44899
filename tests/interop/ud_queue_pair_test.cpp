// UdQueuePair on a device: two of them on one port, speaking to each other. Runs wherever there is
// an InfiniBand port that becomes active: under `softib run`, or on an HCA.
#include "verbs/ud_queue_pair.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <numeric>

#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"
#include "verbs/async_events.hpp"
#include "wire/encapsulation.hpp"

namespace {
bool device_lets_go = true;
}

/// What the device says, unless the test has it hold on to its groups.
extern "C" int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_detach_mcast)>(dlsym(RTLD_NEXT, "ibv_detach_mcast"));
  return device_lets_go ? verb(qp, gid, lid) : EBUSY;
}

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kMaxMtu = 4096;
constexpr QKey kQKey{0x0b1b};
const Gid kGroup({0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x70, 0x01});
constexpr Lid kGroupLid{0xc070};
constexpr int kPatience = 20'000;  // milliseconds, for anything that has to happen

bool wait_readable(int fd, int patience = kPatience) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, patience) == 1;
}

AddressVector way_to(Lid lid) {
  AddressVector out;
  out.dlid = lid;
  return out;
}

/// A queue pair with a pool to send from.
struct Side {
  Side(const Device& device, Logger& log, const QueueDepths& depths, std::uint16_t pkey_index)
      : pool(256, kMaxMtu + 64),
        pair(UdQueuePair::create(device, kMaxMtu, depths, log).value()),
        attributes{pkey_index, kQKey} {
    pair->register_pool(pool).value();
    pair->configure(attributes).value();
  }

  Outgoing datagram(const AddressHandlePtr& to, Qpn qpn, std::size_t size, std::uint8_t seed) {
    Outgoing out{to, qpn, pool.take()};
    out.frame.window(0, size);
    const auto bytes = out.frame.bytes();
    std::iota(bytes.begin(), bytes.end(), seed);
    return out;
  }
  std::size_t send(Outgoing datagram) { return pair->send(std::span(&datagram, 1)); }

  /// Waits for `count` datagrams, sleeping on the completion channel.
  std::vector<Incoming> receive(std::size_t count) {
    std::vector<Incoming> out;
    while (true) {
      pair->receive(out, count - out.size());
      if (out.size() >= count) return out;
      pair->arm();
      pair->receive(out, count - out.size());
      if (out.size() >= count) return out;
      if (!wait_readable(pair->descriptor())) return out;
      pair->acknowledge_events();
    }
  }
  /// Waits until no send is outstanding that will be reported: all are that fail.
  void settle(bool fails = false) {
    const auto is_settled = [&] {
      return fails ? pair->is_broken() : pair->sends_in_flight() < kSignalPeriod;
    };
    std::vector<Incoming> ignored;
    while (!is_settled()) {
      pair->arm();
      pair->receive(ignored, 64);
      if (!is_settled() && !wait_readable(pair->descriptor())) break;
      pair->acknowledge_events();
    }
  }

  FramePool pool;
  std::unique_ptr<UdQueuePair> pair;
  UdAttributes attributes;
};

class UdQueuePairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Device::open("", 1);
    ASSERT_TRUE(opened) << opened.error().message;
    device_.emplace(std::move(*opened));
    auto events = AsyncEventReader::open(*device_).value();
    while (!(port_ = device_->query().value()).active) {
      ASSERT_TRUE(wait_readable(events.descriptor())) << "the port does not become active";
      while (events.next()) {
      }
    }
    const auto partition = find_partition(port_.pkeys, kDefaultPKey);
    ASSERT_TRUE(partition);
    pkey_index_ = partition->index;
    make_sides({});
  }
  void TearDown() override { handle_.reset(); }

  void make_sides(const QueueDepths& depths) {
    handle_.reset();
    a_.emplace(*device_, log_, depths, pkey_index_);
    b_.emplace(*device_, log_, depths, pkey_index_);
    handle_ = a_->pair->create_address_handle(way_to(port_.lid)).value();
  }
  Outgoing to_b(std::size_t size, std::uint8_t seed) {
    return a_->datagram(handle_, b_->pair->qpn(), size, seed);
  }
  void expect_connected() {
    ASSERT_EQ(a_->send(to_b(100, 3)), 1U);
    const auto got = b_->receive(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].frame.size(), 100U);
  }

  Logger log_{"test"};
  std::optional<Device> device_;
  PortSnapshot port_;
  std::uint16_t pkey_index_ = 0;
  std::optional<Side> a_;
  std::optional<Side> b_;
  AddressHandlePtr handle_;
};

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
    EXPECT_EQ(got[0].source_qpn, a_->pair->qpn());
    EXPECT_EQ(got[0].source_lid, port_.lid);
    EXPECT_FALSE(got[0].has_grh);
    EXPECT_EQ(got[0].frame.headroom(), wire::kGrhSize);
  }
}

TEST_F(UdQueuePairTest, ReadsTheGlobalRouteHeader) {
  auto vector = way_to(port_.lid);
  vector.global.emplace().dgid = port_.gid;
  const auto handle = a_->pair->create_address_handle(vector).value();
  ASSERT_EQ(a_->send(a_->datagram(handle, b_->pair->qpn(), 64, 0)), 1U);
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
  EXPECT_EQ(a_->pair->send(batch), kCount);
  batch.clear();
  const auto got = b_->receive(kCount);
  ASSERT_EQ(got.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(std::as_const(got[i].frame).bytes()[0], static_cast<std::uint8_t>(i));
  }
  a_->settle();
  EXPECT_EQ(a_->pair->sends_in_flight(), 0U);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  EXPECT_EQ(handle_->use_count(), 1U) << "no send holds the address handle any more";
}

/// As a packet of TCP over IPv4 whose payload is `size` octets, cut after each 1000.
Outgoing to_be_cut(Outgoing datagram, std::uint16_t size) {
  constexpr std::uint16_t kHeaders = wire::kEncapsulationSize + 20 + 20;
  datagram.frame.window(0, std::size_t{kHeaders} + size);
  const auto bytes = datagram.frame.bytes();
  bytes[wire::kEncapsulationSize] = 0x45;
  std::iota(bytes.begin() + kHeaders, bytes.end(), std::uint8_t{0});
  datagram.frame.set_segmentation(
      {Segmentation::Kind::tcp, wire::kEncapsulationSize + 20, kHeaders, 1000});
  return datagram;
}

TEST_F(UdQueuePairTest, CutsWhatIsLarge) {
  std::vector<Outgoing> batch;
  batch.push_back(to_be_cut(to_b(300, 0), 3500));
  batch.push_back(to_b(300, 7));
  EXPECT_EQ(a_->pair->send(batch), 2U);
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
  EXPECT_EQ(got[4].frame.size(), 300U) << "what comes behind keeps its place";
  EXPECT_EQ(a_->pair->sends_in_flight(), 5U) << "too few for a completion";
  for (auto i = a_->pair->sends_in_flight(); i < kSignalPeriod; ++i) (void)a_->send(to_b(300, 0));
  a_->settle();
  EXPECT_EQ(a_->pair->sends_in_flight(), 0U);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  EXPECT_EQ(a_->pair->counters().large_packets, 1U);
  EXPECT_EQ(a_->pair->counters().segments, 4U);
}

TEST_F(UdQueuePairTest, TakesALargePacketWholeOrNot) {
  make_sides({.receive = 256, .send = 128});
  std::vector<Outgoing> batch;
  for (int i = 0; i < 40; ++i) batch.push_back(to_be_cut(to_b(300, 0), 3500));
  EXPECT_EQ(a_->pair->send(batch), 32U);
  EXPECT_TRUE(batch[32].frame.is_large());
  EXPECT_TRUE(a_->pair->takes_large_packets());
  EXPECT_EQ(b_->receive(128).size(), 128U);
  batch.clear();
  a_->settle();
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
}

TEST_F(UdQueuePairTest, TakesWhatFitsIntoItsSendQueue) {
  make_sides({.receive = 128, .send = 16});
  EXPECT_FALSE(a_->pair->takes_large_packets());
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < 40; ++i) batch.push_back(to_b(300, i));
  EXPECT_EQ(a_->pair->send(batch), 16U);
  EXPECT_EQ(a_->pair->counters().send_queue_full, 1U);
  EXPECT_FALSE(batch[15].frame);
  EXPECT_TRUE(batch[16].frame) << "what was not posted is still the caller's";
  EXPECT_EQ(a_->pair->send(std::span(batch).subspan(16)), 0U);
  a_->settle();
  EXPECT_EQ(a_->pair->send(std::span(batch).subspan(16)), 16U);
  EXPECT_EQ(b_->receive(32).size(), 32U);
}

TEST_F(UdQueuePairTest, ReceivesMoreThanItsRingHolds) {
  make_sides({.receive = 64, .send = 64});
  for (int round = 0; round < 20; ++round) {
    std::vector<Outgoing> batch;
    for (std::uint8_t i = 0; i < 32; ++i) batch.push_back(to_b(200, i));
    ASSERT_EQ(a_->pair->send(batch), 32U);
    ASSERT_EQ(b_->receive(32).size(), 32U) << round;
    a_->settle();
  }
  EXPECT_EQ(b_->pair->counters().receive_starved, 0U);
}

TEST_F(UdQueuePairTest, ChangesItsQKeyWhileUp) {
  constexpr QKey kOther{0x1234};
  const auto qpn = b_->pair->qpn();
  b_->pair->configure({pkey_index_, kOther}).value();
  ASSERT_EQ(a_->send(to_b(50, 1)), 1U);  // dropped: of another Q_Key
  a_->pair->configure({pkey_index_, kOther}).value();
  ASSERT_EQ(a_->send(to_b(60, 2)), 1U);
  const auto got = b_->receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].frame.size(), 60U);
  EXPECT_EQ(b_->pair->qpn(), qpn);
  EXPECT_EQ(b_->pair->counters().bring_ups, 1U);
}

TEST_F(UdQueuePairTest, BreaksAndIsMendedWithTheSameNumber) {
  const auto qpn = a_->pair->qpn();
  ASSERT_EQ(a_->send(to_b(4096 + 32, 0)), 1U);  // over the MTU: a local length error
  a_->settle(true);
  EXPECT_TRUE(a_->pair->is_broken());
  EXPECT_EQ(a_->pair->counters().send_errors, 1U);
  ASSERT_TRUE(a_->pair->mend());
  EXPECT_FALSE(a_->pair->is_broken());
  EXPECT_EQ(a_->pair->qpn(), qpn);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  expect_connected();
}

TEST_F(UdQueuePairTest, GivesEverythingBackWhenBroughtDown) {
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < 100; ++i) batch.push_back(to_b(300, i));
  ASSERT_EQ(a_->pair->send(batch), 100U);
  ASSERT_TRUE(a_->pair->bring_down());
  EXPECT_FALSE(a_->pair->is_up());
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
  EXPECT_EQ(a_->send(to_b(100, 0)), 0U) << "a queue pair that is down takes nothing";
  ASSERT_TRUE(a_->pair->configure(a_->attributes));
  (void)b_->receive(100);
  expect_connected();
}

TEST_F(UdQueuePairTest, IsRemadeWithAnotherNumberInTheSameGroups) {
  const auto before = b_->pair->qpn();
  b_->pair->attach(kGroup, kGroupLid).value();
  b_->pair->remake().value();
  EXPECT_NE(b_->pair->qpn(), before);
  EXPECT_FALSE(b_->pair->is_up());
  b_->pair->configure(b_->attributes).value();
  expect_connected();
  EXPECT_TRUE(b_->pair->detach(kGroup, kGroupLid));
  EXPECT_FALSE(b_->pair->detach(kGroup, kGroupLid));
}

TEST_F(UdQueuePairTest, LeavesItsFramesWithAQueuePairThatIsNotDestroyed) {
  const auto before = a_->pair->qpn();
  a_->pair->attach(kGroup, kGroupLid).value();
  ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  device_lets_go = false;
  const auto remade = a_->pair->remake();
  device_lets_go = true;
  EXPECT_FALSE(remade);
  EXPECT_EQ(a_->pair->qpn(), before);
  EXPECT_EQ(a_->pair->sends_in_flight(), 1U);
  EXPECT_LT(a_->pool.available(), a_->pool.capacity());
  a_->pair->remake().value();
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
}

TEST_F(UdQueuePairTest, CountsWhatIsLostWhenItIsBroughtDown) {
  constexpr std::size_t kCount = kSignalPeriod;
  b_->pair->arm();
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  a_->settle();
  ASSERT_TRUE(a_->pair->mend());
  EXPECT_EQ(a_->pair->counters().sends_flushed, 0U) << "all had gone";
  ASSERT_TRUE(wait_readable(b_->pair->descriptor()));
  b_->pair->acknowledge_events();
  ASSERT_TRUE(b_->pair->mend());
  EXPECT_GE(b_->pair->counters().receives_lost, 1U);
  EXPECT_LE(b_->pair->counters().receives_lost, kCount);

  // The first is over the MTU, a local length error; those behind it come back unsent.
  std::vector<Outgoing> batch;
  batch.push_back(to_b(4096 + 32, 0));
  for (std::size_t i = 1; i < kCount; ++i) batch.push_back(to_b(300, 0));
  ASSERT_EQ(a_->pair->send(batch), kCount);
  a_->settle(true);
  EXPECT_EQ(a_->pair->counters().send_errors, 1U);
  EXPECT_EQ(a_->pair->counters().sends_flushed, kCount - 1);
}

TEST_F(UdQueuePairTest, ExplainsWhyAnAddressHandleIsRefused) {
  auto vector = way_to(Lid(7));
  vector.global.emplace().sgid_index = 255;  // beyond every GID table in use
  const auto handle = a_->pair->create_address_handle(vector);
  ASSERT_FALSE(handle);
  EXPECT_THAT(handle.error().message, ::testing::HasSubstr("LID 7"));
}

TEST_F(UdQueuePairTest, WakesOnceForACompletionAfterArming) {
  b_->pair->arm();
  EXPECT_FALSE(wait_readable(b_->pair->descriptor(), 0));
  ASSERT_EQ(a_->send(to_b(100, 0)), 1U);
  ASSERT_TRUE(wait_readable(b_->pair->descriptor()));
  b_->pair->acknowledge_events();
  EXPECT_FALSE(wait_readable(b_->pair->descriptor(), 0));
  EXPECT_EQ(b_->receive(1).size(), 1U);
}

}  // namespace
}  // namespace ipoib::verbs
