// A ring with two mappings of its memory: order, wrapping, room, closing, and an untrusted other
// side.
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

/// A packet of `size` bytes in several pieces; each byte is `fill`.
class Packet {
 public:
  Packet(std::size_t size, std::uint8_t fill) : bytes_(size, fill) {
    packet_.header.fill(fill);
    packet_.header_size = std::min<std::size_t>(size, 28);
    auto rest = ConstBytes(bytes_).subspan(packet_.header_size);
    const auto first = rest.first(rest.size() / 3);
    for (const auto piece : {first, ConstBytes{}, rest.subspan(first.size())}) {
      packet_.add(piece);
    }
  }
  void patch_checksum(std::uint32_t offset) {
    packet_.patches[packet_.patch_count++] = {offset, 0x0102};
    packet_.checksums_valid = true;
  }
  void set_icrc() { packet_.has_icrc = true; }
  void set_gso(std::uint16_t size, std::uint16_t packets) { packet_.gso = {size, packets}; }
  [[nodiscard]] const OutgoingPacket* get() const { return &packet_; }

 private:
  std::vector<std::uint8_t> bytes_;
  OutgoingPacket packet_;
};

class RingTest : public testing::Test {
 protected:
  std::size_t put(std::size_t size, std::uint8_t fill) {
    const Packet packet(size, fill);
    const auto* const one = packet.get();
    return writer_.put({&one, 1});
  }
  /// Reads the packets in the ring and returns copies.
  std::vector<std::vector<std::uint8_t>> take(std::size_t limit = 1U << 20) {
    std::vector<ArrivedPacket> packets;
    EXPECT_TRUE(reader_.read(packets, limit));
    std::vector<std::vector<std::uint8_t>> copies;
    for (const auto& packet : packets)
      copies.emplace_back(packet.bytes.begin(), packet.bytes.end());
    reader_.release();
    return copies;
  }
  /// Another mapping, for storing invalid values.
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(other_); }
  std::uint8_t* ring() { return other_ + 4096; }

  const ipoib::FileDescriptor memory_ = make_ring_memory().value();
  RingWriter writer_{RingMemory::map(memory_.get()).value()};
  RingReader reader_{RingMemory::map(memory_.get()).value()};
  std::uint8_t* other_ = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 4096 + kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
};

TEST_F(RingTest, APacketArrivesAtAPort) {
  const Packet packet(100, 7);
  const auto* const one = packet.get();
  ASSERT_EQ(writer_.put({&one, 1}, 1), 1U);
  ASSERT_EQ(writer_.put({&one, 1}, 2), 1U);
  std::vector<ArrivedPacket> packets;
  ASSERT_TRUE(reader_.read(packets, 10));
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].port, 1);
  EXPECT_EQ(packets[1].port, 2);
  EXPECT_EQ(packets[1].bytes.size(), 100U);
}

TEST_F(RingTest, PreservesOrderAndContentOfAnySize) {
  std::mt19937 random(1);
  std::deque<std::pair<std::size_t, std::uint8_t>> expected;
  std::uint8_t fill = 0;
  for (std::size_t bytes = 0; bytes < 5 * kRingBytes;) {
    const std::size_t size = random() % (kMaxPacketBytes + 1);
    if (put(size, ++fill) == 1) {
      expected.emplace_back(size, fill);
      bytes += size;
      continue;
    }
    for (const auto& packet : take(random() % 50)) {
      ASSERT_FALSE(expected.empty());
      const auto& [length, byte] = expected.front();
      ASSERT_EQ(packet, std::vector<std::uint8_t>(length, byte));
      expected.pop_front();
    }
  }
  EXPECT_EQ(take().size(), expected.size());
  EXPECT_EQ(reader_.taken(), reader_.published());
  EXPECT_TRUE(writer_.is_empty());
}

TEST_F(RingTest, CarriesPatchedChecksumsAndWhetherTheyAreValid) {
  const Packet plain(100, 9);
  Packet with(100, 9);
  with.patch_checksum(23);  // across two pieces
  const std::array both{with.get(), plain.get()};
  ASSERT_EQ(writer_.put(both), 2U);
  std::vector<ArrivedPacket> packets;
  ASSERT_TRUE(reader_.read(packets, 2));
  std::vector<std::uint8_t> wanted(100, 9);
  EXPECT_FALSE(packets.at(1).checksums_valid);
  EXPECT_TRUE(std::ranges::equal(packets[1].bytes, wanted));
  wanted[28 + 23] = 1;
  wanted[28 + 24] = 2;
  EXPECT_TRUE(packets[0].checksums_valid);
  EXPECT_TRUE(std::ranges::equal(packets[0].bytes, wanted));
}

TEST_F(RingTest, CarriesWhetherAPacketEndsWithItsIcrc) {
  const Packet plain(100, 9);
  Packet longest(kMaxPacketBytes + 4, 9);
  longest.set_icrc();
  const std::array both{longest.get(), plain.get()};
  ASSERT_EQ(writer_.put(both), 2U);
  std::vector<ArrivedPacket> packets;
  ASSERT_TRUE(reader_.read(packets, 2));
  EXPECT_TRUE(packets.at(0).has_icrc);
  EXPECT_EQ(packets[0].bytes.size(), kMaxPacketBytes + 4);
  EXPECT_FALSE(packets.at(1).has_icrc);
  EXPECT_FALSE(packets[0].checksums_valid);
  EXPECT_EQ(put(kMaxPacketBytes + 1, 9), 1U) << "skipped";
  EXPECT_TRUE(writer_.count_left().packets == 2);
}

TEST_F(RingTest, ALargePacketHasNoIcrc) {
  Packet large(6000, 9);
  large.set_gso(2000, 3);
  large.set_icrc();
  const auto* const one = large.get();
  ASSERT_EQ(writer_.put({&one, 1}), 1U);
  std::vector<ArrivedPacket> packets;
  EXPECT_FALSE(reader_.read(packets, 2)) << "no correct writer sends that";
}

TEST_F(RingTest, CountsALargePacketAsItsSegments) {
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
  EXPECT_EQ(packets[0].bytes.size(), 60'000U);
  EXPECT_EQ(packets[0].gso.size, 2000U);
  EXPECT_EQ(packets[0].gso.packets, 30U);
  EXPECT_EQ(packets[1].gso.size, 0U);
  reader_.release();
  EXPECT_EQ(writer_.count_left().packets, 31U);
  ASSERT_TRUE(reader_.read(packets, 1));
  EXPECT_EQ(packets.size(), 3U);
}

TEST_F(RingTest, AcceptsOnlyPacketsThatFit) {
  std::size_t count = 0;
  while (put(2044, 7) == 1) ++count;
  EXPECT_GT(count * 2112, kRingBytes - 2112);
  EXPECT_EQ(writer_.count_left().entries, count);
  EXPECT_EQ(take(3).size(), 3U);
  EXPECT_EQ(writer_.count_left().packets, count - 3);
  EXPECT_EQ(put(2044, 7), 1U);
  EXPECT_EQ(take().size(), count - 2);
}

TEST_F(RingTest, SkipsOversizedPackets) {
  EXPECT_EQ(put(kMaxPacketBytes + 1, 1), 1U);
  Packet large(kMaxLargePacketBytes + 1, 1);
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
  std::thread reader([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the writer sleeps by then
    (void)take();
  });
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

TEST_F(RingTest, ClosingWakesAWriter) {
  while (put(4096, 1) == 1) {
  }
  std::thread reader([this] { reader_.set_state(ReaderState::closed); });
  const auto forever = steady_clock::now() + std::chrono::minutes(1);
  while (writer_.reader_state() != ReaderState::closed) {
    ASSERT_LT(steady_clock::now(), forever);
    writer_.wait_for_room(writer_.seen_taken(), steady_clock::now() + std::chrono::seconds(1));
  }
  reader.join();
}

// Neither side trusts the other.

TEST_F(RingTest, AReaderGetsNothingFromABrokenRing) {
  const auto breaks = [&](auto store_invalid) {
    RingReader reader(RingMemory::map(memory_.get()).value());
    header().written = 0;
    store_invalid();
    std::vector<ArrivedPacket> packets;
    const bool valid = reader.read(packets, 10);
    EXPECT_TRUE(reader.read(packets, 10)) << "reported once";
    return !valid && packets.empty();
  };
  const auto record = [&](std::uint32_t bytes, std::uint16_t size = 0, std::uint16_t packets = 1) {
    const std::array prefix{bytes, size | std::uint32_t{packets} << 16};
    std::memcpy(ring(), prefix.data(), sizeof prefix);
  };
  EXPECT_TRUE(breaks([&] { header().written = kRingBytes + 1; }));
  EXPECT_TRUE(breaks([&] { header().written = kRingBytes + 64, record(56); }));
  EXPECT_TRUE(breaks([&] { header().written = ~std::uint64_t{0}; }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(57); })) << "longer than `written`";
  EXPECT_TRUE(breaks([&] { header().written = kRingBytes, record(kMaxPacketBytes + 1); }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(~std::uint32_t{0}); }));
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 0, 2); })) << "two packets, not large";
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 1, 0); })) << "no packets";
  EXPECT_TRUE(breaks([&] { header().written = 64, record(56, 1, kMaxTsoSegments + 1); }));
  EXPECT_TRUE(breaks([&] { header().written = kRingBytes, record(kMaxLargePacketBytes + 1, 1); }));
  EXPECT_FALSE(breaks([&] { header().written = 64, record(56); }));
  EXPECT_FALSE(breaks([&] { header().written = 64, record(56, 1, kMaxTsoSegments); }));
}

TEST_F(RingTest, AWriterStaysWithinTheRing) {
  EXPECT_EQ(put(2044, 1), 1U);
  for (const std::uint64_t taken :
       {std::uint64_t{1} << 63, std::uint64_t{5000}, ~std::uint64_t{0}}) {
    header().taken = taken;
    while (put(2044, 1) == 1) {
    }
    EXPECT_LE(writer_.count_left().entries, kRingBytes / 64);
    EXPECT_FALSE(writer_.is_empty());
  }
  for (const std::uint64_t within_a_record : {1, 8, 63}) {
    header().taken = writer_.taken() + within_a_record;
    EXPECT_EQ(writer_.taken() % 64, 0U);
  }
  std::fill_n(ring(), kRingBytes, std::uint8_t{0xff});
  EXPECT_EQ(writer_.count_left().packets, 0U) << "the content was overwritten";
}

TEST_F(RingTest, RefusesOtherMemory) {
  EXPECT_FALSE(RingMemory::map(-1));
  const ipoib::FileDescriptor file(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(RingMemory::map(file.get()));
  const ipoib::FileDescriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096 + off_t{kRingBytes}), 0);
  EXPECT_FALSE(RingMemory::map(unsealed.get())) << "it could shrink while mapped";
  const auto wakeup_table = WakeupTable::make();
  ASSERT_TRUE(wakeup_table);
  EXPECT_FALSE(RingMemory::map(wakeup_table->descriptor()));
  EXPECT_FALSE(WakeupView::map(memory_.get()));
}

TEST_F(RingTest, AWriterSleepsUntilTheRingIsClosed) {
  reader_.set_state(ReaderState::closing);
  std::thread reader([this] {
    while (header().writer_sleeps == 0) std::this_thread::yield();
    reader_.set_state(ReaderState::closed);
  });
  writer_.wait_until_closed(steady_clock::now() + std::chrono::minutes(1));
  EXPECT_EQ(writer_.reader_state(), ReaderState::closed);
  reader.join();
  reader_.set_state(ReaderState::closing);
  writer_.wait_until_closed(steady_clock::now() + std::chrono::milliseconds(1));
}

TEST_F(RingTest, PassesARequestForTheEngineOnce) {
  EXPECT_FALSE(reader_.take_request());
  EXPECT_TRUE(writer_.request_engine());
  EXPECT_FALSE(writer_.request_engine());
  EXPECT_TRUE(reader_.take_request());
  EXPECT_FALSE(reader_.take_request());
}

class WakeupTableTest : public testing::Test {
 protected:
  WakeupTable table_ = WakeupTable::make().value();
  WakeupView one_ = WakeupView::map(table_.descriptor()).value();
  WakeupView other_ = WakeupView::map(table_.descriptor()).value();
};

TEST_F(WakeupTableTest, EachSenderRemembersWhomItHasWoken) {
  EXPECT_EQ(WakeupView::waiter(one_.entry(3)), Waiter::kEngine) << "by default";
  table_.set_waiter(3, 17);
  const auto word = one_.entry(3);
  EXPECT_EQ(WakeupView::waiter(word), 17U);
  EXPECT_FALSE(one_.is_woken(3, word));
  one_.set_woken(3, word);
  EXPECT_TRUE(one_.is_woken(3, word));
  EXPECT_FALSE(other_.is_woken(3, other_.entry(3))) << "another sender does not know";
  table_.set_waiter(3, Waiter::kNone);
  EXPECT_EQ(WakeupView::waiter(one_.entry(3)), Waiter::kNone);
  table_.set_waiter(3, 17);
  EXPECT_FALSE(one_.is_woken(3, one_.entry(3))) << "it sleeps again";
  table_.set_waiter(4, 17);
  EXPECT_FALSE(one_.is_woken(4, one_.entry(4)));
}

TEST_F(WakeupTableTest, EachSenderWakesTheEngineOncePerSleep) {
  EXPECT_FALSE(one_.must_wake_engine()) << "it is awake";
  for (int i = 0; i < 3; ++i) {
    table_.fall_asleep();
    EXPECT_TRUE(one_.must_wake_engine());
    EXPECT_FALSE(one_.must_wake_engine());
    EXPECT_TRUE(other_.must_wake_engine());
    table_.wake_up();
    EXPECT_FALSE(other_.must_wake_engine());
  }
}

TEST_F(WakeupTableTest, SendersCannotWriteToIt) {
  void* const writable =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, table_.descriptor(), 0);
  EXPECT_EQ(writable, MAP_FAILED);
  EXPECT_LT(::pwrite(table_.descriptor(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(table_.descriptor(), 0), 0);
  table_.set_waiter(3, 17);
  EXPECT_EQ(WakeupView::waiter(one_.entry(3)), 17U) << "the receiver can";
}

}  // namespace
}  // namespace softib::transport
