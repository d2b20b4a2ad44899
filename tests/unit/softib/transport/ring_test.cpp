// A ring between two mappings of one memory: order, wrapping, room, the end, and a writer that
// lies.
#include "softib/transport/ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <random>
#include <thread>

#include "softib/transport/wakeup_table.hpp"

namespace softib::transport {
namespace {

using std::chrono::steady_clock;

/// A packet of `size` octets in all, in several pieces, each octet `fill`.
class Packet {
 public:
  Packet(std::size_t size, std::uint8_t fill) : octets_(size, fill) {
    packet_.header.fill(fill);
    packet_.header_size = std::min<std::size_t>(size, 28);
    auto rest = ConstBytes(octets_).subspan(packet_.header_size);
    const auto first = rest.first(rest.size() / 3);
    for (const auto piece : {first, ConstBytes{}, rest.subspan(first.size())}) {
      packet_.add(piece);
    }
  }
  void vouch(std::uint32_t offset) {
    packet_.patches[packet_.patch_count++] = {offset, 0x0102};
    packet_.checksums_valid = true;
  }
  void set_gso(std::uint16_t size, std::uint16_t packets) { packet_.gso = {size, packets}; }
  [[nodiscard]] const OutgoingPacket* get() const { return &packet_; }

 private:
  std::vector<std::uint8_t> octets_;
  OutgoingPacket packet_;
};

class RingTest : public testing::Test {
 protected:
  std::size_t put(std::size_t size, std::uint8_t fill) {
    const Packet packet(size, fill);
    const auto* const one = packet.get();
    return writer_.put({&one, 1});
  }
  /// What is in the ring, copied out of it.
  std::vector<std::vector<std::uint8_t>> take(std::size_t limit = 1U << 20) {
    std::vector<ArrivedPacket> packets;
    EXPECT_TRUE(reader_.read(packets, limit));
    std::vector<std::vector<std::uint8_t>> copies;
    for (const auto& packet : packets)
      copies.emplace_back(packet.octets.begin(), packet.octets.end());
    reader_.release();
    return copies;
  }
  /// The header as a liar sees it.
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(other_); }
  std::uint8_t* ring() { return other_ + 4096; }

  const ipoib::FileDescriptor memory_ = std::move(make_ring_memory().value());
  RingWriter writer_{RingMemory::map(memory_.get()).value()};
  RingReader reader_{RingMemory::map(memory_.get()).value()};
  std::uint8_t* other_ = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 4096 + kRingOctets, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
};

TEST_F(RingTest, WhatIsPutComesOutInOrderWhateverItsSize) {
  std::mt19937 random(1);
  std::deque<std::pair<std::size_t, std::uint8_t>> expected;
  std::uint8_t fill = 0;
  for (std::size_t octets = 0; octets < 5 * kRingOctets;) {
    const std::size_t size = random() % (kMaxPacketBytes + 1);
    if (put(size, ++fill) == 1) {
      expected.emplace_back(size, fill);
      octets += size;
      continue;
    }
    for (const auto& packet : take(random() % 50)) {
      ASSERT_FALSE(expected.empty());
      const auto& [length, octet] = expected.front();
      ASSERT_EQ(packet, std::vector<std::uint8_t>(length, octet));
      expected.pop_front();
    }
  }
  EXPECT_EQ(take().size(), expected.size());
  EXPECT_TRUE(reader_.is_empty());
  EXPECT_TRUE(writer_.is_empty());
}

TEST_F(RingTest, AChecksumGoesAlongAndThatItIsRight) {
  const Packet plain(100, 9);
  Packet with(100, 9);
  with.vouch(23);  // over the border of two pieces
  const std::array both{with.get(), plain.get()};
  ASSERT_EQ(writer_.put(both), 2U);
  std::vector<ArrivedPacket> packets;
  ASSERT_TRUE(reader_.read(packets, 2));
  std::vector<std::uint8_t> wanted(100, 9);
  EXPECT_FALSE(packets.at(1).checksums_valid);
  EXPECT_TRUE(std::ranges::equal(packets[1].octets, wanted));
  wanted[28 + 23] = 1;
  wanted[28 + 24] = 2;
  EXPECT_TRUE(packets[0].checksums_valid);
  EXPECT_TRUE(std::ranges::equal(packets[0].octets, wanted));
}

TEST_F(RingTest, ALargePacketCountsForAllThatItStandsFor) {
  Packet large(60'000, 9);
  large.set_gso(2000, 30);
  const Packet small(100, 8);
  const std::array all{large.get(), small.get(), large.get(), small.get()};
  ASSERT_EQ(writer_.put(all), 4U);
  EXPECT_EQ(writer_.count_left().entries, 4U);
  EXPECT_EQ(writer_.count_left().packets, 62U);
  std::vector<ArrivedPacket> packets;
  ASSERT_TRUE(reader_.read(packets, 31));
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].octets.size(), 60'000U);
  EXPECT_EQ(packets[0].gso.size, 2000U);
  EXPECT_EQ(packets[0].gso.packets, 30U);
  EXPECT_EQ(packets[1].gso.size, 0U);
  reader_.release();
  EXPECT_EQ(writer_.count_left().packets, 31U);
  ASSERT_TRUE(reader_.read(packets, 1));
  EXPECT_EQ(packets.size(), 3U);
}

TEST_F(RingTest, NothingIsPublishedThatDoesNotFit) {
  std::size_t count = 0;
  while (put(2044, 7) == 1) ++count;
  EXPECT_GT(count * 2112, kRingOctets - 2112);
  EXPECT_EQ(writer_.count_left().entries, count);
  EXPECT_EQ(take(3).size(), 3U);
  EXPECT_EQ(writer_.count_left().packets, count - 3);
  EXPECT_EQ(put(2044, 7), 1U);
  EXPECT_EQ(take().size(), count - 2);
}

TEST_F(RingTest, WhatNoPacketCanBeIsPassedOver) {
  EXPECT_EQ(put(kMaxPacketBytes + 1, 1), 1U);
  Packet large(hca::kMaxLargeOctets + 1, 1);
  large.set_gso(4000, 17);
  const auto* const one = large.get();
  EXPECT_EQ(writer_.put({&one, 1}), 1U);
  EXPECT_EQ(put(10, 2), 1U);
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(RingTest, AWriterSleepsUntilThereIsRoom) {
  while (put(4096, 1) == 1) {
  }
  const auto forever = steady_clock::now() + std::chrono::minutes(1);
  std::thread reader([this] { (void)take(); });
  while (put(4096, 2) == 0) {
    ASSERT_LT(steady_clock::now(), forever);
    writer_.wait_for_room(writer_.seen_taken(), forever);
  }
  reader.join();
}

TEST_F(RingTest, AWriterDoesNotSleepBeyondItsDeadline) {
  while (put(4096, 1) == 1) {
  }
  writer_.wait_for_room(writer_.seen_taken(), steady_clock::now() + std::chrono::milliseconds(1));
  writer_.wait_for_room(writer_.seen_taken(), steady_clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(put(4096, 1), 0U);
}

TEST_F(RingTest, TheEndWakesAWriter) {
  while (put(4096, 1) == 1) {
  }
  std::thread reader([this] { reader_.set_end(RingEnd::complete); });
  const auto forever = steady_clock::now() + std::chrono::minutes(1);
  while (writer_.end() != RingEnd::complete) {
    ASSERT_LT(steady_clock::now(), forever);
    writer_.wait_for_room(writer_.seen_taken(), steady_clock::now() + std::chrono::seconds(1));
  }
  reader.join();
}

// Neither side believes the other.

TEST_F(RingTest, AReaderTakesNothingOutOfABrokenRing) {
  const auto breaks = [&](auto lie) {
    RingReader reader(RingMemory::map(memory_.get()).value());
    header().written = 0;
    lie();
    std::vector<ArrivedPacket> packets;
    const bool right = reader.read(packets, 10);
    EXPECT_TRUE(reader.is_empty() || right);
    EXPECT_TRUE(reader.read(packets, 10)) << "it is said once";
    return !right && packets.empty();
  };
  const auto record = [&](std::uint32_t octets, std::uint16_t size = 0, std::uint16_t packets = 1) {
    const std::array prefix{octets, size | std::uint32_t{packets} << 16};
    std::memcpy(ring(), prefix.data(), sizeof prefix);
  };
  EXPECT_TRUE(breaks([&] { header().written = kRingOctets + 1; }));
  EXPECT_TRUE(breaks([&] { header().written = ~std::uint64_t{0}; }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(57); })) << "longer than is written";
  EXPECT_TRUE(breaks([&] { header().written = kRingOctets, record(kMaxPacketBytes + 1); }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(~std::uint32_t{0}); }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 0, 2); })) << "two, uncut";
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 1, 0); })) << "none";
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 1, hca::kMaxTsoSegments + 1); }));
  EXPECT_TRUE(breaks([&] { header().written = kRingOctets, record(hca::kMaxLargeOctets + 1, 1); }));
  EXPECT_FALSE(breaks([&] { header().written = 64, record(56); }));
  EXPECT_FALSE(breaks([&] { header().written = 64, record(56, 1, hca::kMaxTsoSegments); }));
}

TEST_F(RingTest, AWriterStaysWithinTheRing) {
  EXPECT_EQ(put(2044, 1), 1U);
  for (const std::uint64_t lie : {std::uint64_t{1} << 63, std::uint64_t{5000}, ~std::uint64_t{0}}) {
    header().taken = lie;
    while (put(2044, 1) == 1) {
    }
    EXPECT_LE(writer_.count_left().entries, kRingOctets / 64);
    EXPECT_FALSE(writer_.is_empty());
  }
  std::fill_n(ring(), kRingOctets, std::uint8_t{0xff});
  EXPECT_EQ(writer_.count_left().packets, 0U) << "what is in it is not what was put";
}

TEST_F(RingTest, OtherMemoryIsNoRing) {
  EXPECT_FALSE(RingMemory::map(-1));
  const ipoib::FileDescriptor file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(RingMemory::map(file.get()));
  const ipoib::FileDescriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096 + off_t{kRingOctets}), 0);
  EXPECT_FALSE(RingMemory::map(unsealed.get())) << "it could be made smaller under its reader";
  const auto door = make_door_memory();
  ASSERT_TRUE(door);
  EXPECT_FALSE(RingMemory::map(door->get()));
  EXPECT_FALSE(Door::map(memory_.get()));
}

TEST(DoorTest, ABellIsRungOnce) {
  const auto memory = make_door_memory();
  auto inside = std::move(Door::map(memory->get()).value());
  auto outside = std::move(Door::map(memory->get()).value());
  EXPECT_EQ(outside.attendant(3), Attendant::kEngine) << "until somebody else says so";
  inside.attend(3, 17);
  EXPECT_EQ(outside.attendant(3), 17U);
  EXPECT_FALSE(outside.claim(3, 18));
  EXPECT_TRUE(outside.claim(3, 17));
  EXPECT_FALSE(outside.claim(3, 17));
  EXPECT_EQ(inside.attendant(3), Attendant::kNobody);
}

TEST(DoorTest, AnEngineIsWokenOnceAndDoesNotSleepOverACall) {
  const auto memory = make_door_memory();
  auto inside = std::move(Door::map(memory->get()).value());
  auto outside = std::move(Door::map(memory->get()).value());
  EXPECT_FALSE(outside.call_engine()) << "it is awake";
  EXPECT_FALSE(inside.fall_asleep());
  EXPECT_TRUE(inside.wake_up());
  EXPECT_TRUE(inside.fall_asleep());
  EXPECT_TRUE(outside.call_engine());
  EXPECT_FALSE(outside.call_engine());
  EXPECT_TRUE(inside.wake_up());
  EXPECT_TRUE(inside.fall_asleep());
  EXPECT_FALSE(inside.wake_up()) << "something else woke it";
}

}  // namespace
}  // namespace softib::transport
