#include "offload/coalescer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "packets.hpp"
#include "tests/sim/memory_tun.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using namespace test;

using Packets = std::vector<Bytes>;

class CoalescerTest : public ::testing::Test {
 protected:
  CoalescerTest() { host.accepts_large = true; }

  void add(const Bytes& packet, bool checksums_valid = false) {
    Frame frame = pool.take();
    frame.window(44, packet.size());
    std::copy(packet.begin(), packet.end(), frame.bytes().begin());
    frame.set_checksums_valid(checksums_valid);
    frame.set_upper_layer(wire::upper_layer(packet));
    coalescer.add(std::move(frame));
  }
  /// Adds the segments of a packet.
  void add_segments(const PacketSpec& spec, std::size_t size = kSegment) {
    const Frame frame = large_frame(large_pool, spec, size);
    for (const auto& segment : segments_of(frame)) add(segment);
  }
  /// Adds two packets of each flow, alternating between flows.
  void add_of_flows(std::uint16_t flows);
  [[nodiscard]] const std::vector<Bytes>& got() {
    coalescer.flush();
    return host.from_fabric;
  }

  FramePool pool{256, 2200};
  FramePool large_pool{1, 70'000};
  sim::MemoryTun host{"tun"};
  Coalescer coalescer{host};
};

/// Consecutive packets of one flow.
std::vector<PacketSpec> stream(std::size_t count, std::size_t size = kSegment) {
  std::vector<PacketSpec> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].payload = size;
    out[i].sequence += static_cast<std::uint32_t>(i * size);
    out[i].id = static_cast<std::uint16_t>(out[i].id + i);
    out[i].seed = static_cast<std::uint8_t>(i);
  }
  return out;
}

void CoalescerTest::add_of_flows(std::uint16_t flows) {
  for (auto packet : stream(2)) {
    for (packet.source_port = 1; packet.source_port <= flows; ++packet.source_port) {
      add(complete_packet(packet));
    }
  }
}

TEST_F(CoalescerTest, TrustsChecksumsVerifiedByTheDevice) {
  for (const bool right : {false, true}) {
    for (const auto& spec : stream(2)) {
      auto packet = complete_packet(spec);
      packet.back() ^= 1;
      add(packet, right);
    }
    coalescer.flush();
    EXPECT_EQ(coalescer.counters().large, right ? 1U : 0U);
  }
}

TEST_F(CoalescerTest, CoalescesTheSegmentsOfAPacket) {
  for (const Kind kind : {Kind::tcp, Kind::udp}) {
    for (const int version : {4, 6}) {
      PacketSpec spec{.kind = kind, .version = version, .payload = 5 * kSegment + 3};
      spec.flags = wire::tcp::kAck | wire::tcp::kPush | wire::tcp::kFin;
      host.from_fabric.clear();
      host.large.clear();
      add_segments(spec);
      EXPECT_EQ(got(), Packets{partial_packet(spec)}) << "byte for byte";
      ASSERT_EQ(host.large.size(), 1U);
      EXPECT_EQ(host.large[0].second, *plan_segments(got()[0], kind, transport_of(spec), kSegment));
    }
  }
  EXPECT_EQ(coalescer.counters().large, 4U);
  EXPECT_EQ(coalescer.counters().segments, 24U);
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST_F(CoalescerTest, RestoresAnySegmentedPacket) {
  std::mt19937 random(1);  // NOLINT: the same each time
  const auto below = [&](std::size_t end) { return random() % end; };
  for (int round = 0; round < 500; ++round) {
    PacketSpec spec{.kind = below(2) == 0 ? Kind::tcp : Kind::udp,
                    .version = below(2) == 0 ? 4 : 6,
                    .sequence = static_cast<std::uint32_t>(random()),
                    .id = static_cast<std::uint16_t>(random()),
                    .fragment = below(2) == 0 ? wire::ipv4::kDontFragment : std::uint16_t{0},
                    .options = 4 * below(11),
                    .seed = static_cast<std::uint8_t>(random())};
    const std::size_t size = 1 + below(2000);
    spec.payload = size + 1 + below(size * (kMaxSegments - 1));
    spec.payload = std::min(spec.payload, wire::kMaxIpPacket - payload_of(spec));
    if (below(2) == 0) spec.flags |= wire::tcp::kPush;
    if (below(2) == 0) spec.flags |= wire::tcp::kEcnEcho;
    if (spec.payload <= size) continue;
    host.from_fabric.clear();
    add_segments(spec, size);
    ASSERT_EQ(got(), Packets{partial_packet(spec)}) << "round " << round;
  }
}

TEST_F(CoalescerTest, PassesASinglePacketOnUnchanged) {
  const auto packet = complete_packet({.payload = 333});
  add(packet);
  EXPECT_EQ(got(), Packets{packet});
  EXPECT_TRUE(host.large.empty());
}

TEST_F(CoalescerTest, NoPacketWaitsForAnotherBatch) {
  const auto packets = stream(2);
  add(complete_packet(packets[0]));
  EXPECT_EQ(got().size(), 1U);
  add(complete_packet(packets[1]));
  EXPECT_EQ(got().size(), 2U);
  EXPECT_EQ(coalescer.counters().large, 0U);
}

TEST_F(CoalescerTest, SeparatesFlowsAndKeepsTheirOrder) {
  auto one = stream(4);
  auto other = stream(4);
  for (std::size_t i = 0; i < 4; ++i) {
    other[i].source_port = 40001;
    add(complete_packet(one[i]));
    add(complete_packet(other[i]));
  }
  EXPECT_EQ(got().size(), 2U);
  EXPECT_EQ(host.large.size(), 2U);
}

TEST_F(CoalescerTest, CoalescesManyFlows) {
  for (int batch = 0; batch < 2; ++batch) {
    host.from_fabric.clear();
    add_of_flows(20);
    EXPECT_EQ(got().size(), 20U);
  }
  EXPECT_EQ(host.large.size(), 40U);
}

TEST_F(CoalescerTest, FlowsInTheSameBucketKeepTheirOrder) {
  constexpr std::uint16_t kFlows = 120;  // for 256 buckets: some share one
  add_of_flows(kFlows);
  std::map<std::uint16_t, Bytes> data;
  for (const auto& packet : got()) {
    const auto port = load_be<std::uint16_t>(&packet[20]);
    data[port].insert(data[port].end(), packet.begin() + 52, packet.end());
  }
  EXPECT_LT(host.large.size(), kFlows) << "not all could be coalesced";
  EXPECT_GT(host.large.size(), kFlows / 2U);
  ASSERT_EQ(data.size(), kFlows);
  const auto packets = stream(2);
  Bytes whole;
  for (const auto& packet : packets) {
    const auto bytes = complete_packet(packet);
    whole.insert(whole.end(), bytes.begin() + 52, bytes.end());
  }
  for (const auto& [port, bytes] : data) EXPECT_EQ(bytes, whole) << "of port " << port;
}

TEST_F(CoalescerTest, PacketThatDoesNotContinueTheGroupClosesIt) {
  auto packets = stream(4);
  packets[2].payload = 0;  // an acknowledgement without data
  packets[2].flags = wire::tcp::kAck;
  packets[3].sequence = packets[2].sequence;
  for (const auto& packet : packets) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 3U);
  EXPECT_EQ(got()[1], complete_packet(packets[2])) << "in order";
}

TEST_F(CoalescerTest, UnknownPacketClosesAllGroups) {
  const auto packets = stream(2);
  auto fragment = packets[0];
  fragment.fragment = 0x2000;
  add(complete_packet(packets[0]));
  add(complete_packet(fragment));
  add(Bytes(7));
  add(complete_packet(packets[1]));
  EXPECT_EQ(got().size(), 4U);
  EXPECT_TRUE(host.large.empty());
}

TEST_F(CoalescerTest, DoesNotExceedTheMaximumSizeOfAPacket) {
  for (const auto& packet : stream(70)) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 2U);
  EXPECT_EQ(got()[0].size(), 52 + kMaxSegments * kSegment);
  host.from_fabric.clear();
  for (const auto& packet : stream(40, 2000)) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 2U);
  EXPECT_EQ(got()[0].size(), 52 + 32 * 2000U) << "33 would exceed 65535 bytes";
}

TEST_F(CoalescerTest, SmallerSegmentIsTheLast) {
  auto packets = stream(4);
  packets[2].payload = kSegment - 1;
  packets[3].sequence -= 1;
  for (const auto& packet : packets) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 2U);
  EXPECT_EQ(got()[0].size(), 52 + 3 * kSegment - 1);
}

/// UDP has no sequence numbers that would show it.
TEST_F(CoalescerTest, SmallerDatagramIsTheLast) {
  auto packets = stream(3);
  for (auto& packet : packets) packet.kind = Kind::udp;
  packets[1].payload = kSegment - 1;
  for (const auto& packet : packets) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 2U);
  EXPECT_EQ(got()[1], complete_packet(packets[2]));
}

TEST_F(CoalescerTest, UnknownPacketClosesNoGroupOfTheNextBatch) {
  auto fragment = complete_packet({.fragment = 0x2000});
  add(fragment);
  coalescer.flush();
  host.from_fabric.clear();
  for (const auto& packet : stream(2)) add(complete_packet(packet));
  EXPECT_EQ(got().size(), 1U);
}

TEST_F(CoalescerTest, CountsPacketsThatTheHostRefuses) {
  host.is_full = true;
  for (const auto& packet : stream(3)) add(complete_packet(packet));
  coalescer.flush();
  EXPECT_EQ(coalescer.counters().refused, 3U) << "segments of a large packet";
  add(complete_packet({}));
  coalescer.flush();
  EXPECT_EQ(coalescer.counters().refused, 4U);
}

TEST_F(CoalescerTest, SegmentWithPushIsTheLast) {
  auto packets = stream(3);
  packets[1].flags |= wire::tcp::kPush;
  for (const auto& packet : packets) add(complete_packet(packet));
  ASSERT_EQ(got().size(), 2U);
  EXPECT_EQ(got()[1], complete_packet(packets[2]));
}

TEST_F(CoalescerTest, PassesInvalidChecksumsOnToTheHost) {
  for (const std::size_t broken : {wire::ipv4::kChecksum, std::size_t{20} + wire::tcp::kChecksum}) {
    host.from_fabric.clear();
    auto first = complete_packet(stream(2)[0]);
    auto second = complete_packet(stream(2)[1]);
    second[broken] ^= 1;
    add(first);
    add(second);
    EXPECT_EQ(got(), (Packets{first, second}));
  }
}

TEST_F(CoalescerTest, PassesLargePacketsOnInOrder) {
  auto packets = stream(2);
  PacketSpec large = packets[0];
  large.sequence += 2 * kSegment;
  large.payload = 3 * kSegment + 1;
  auto last = packets[0];
  last.sequence = large.sequence + static_cast<std::uint32_t>(large.payload);
  for (const auto& packet : packets) add(complete_packet(packet));
  coalescer.add(large_frame(large_pool, large, kSegment));
  add(complete_packet(last));
  ASSERT_EQ(got().size(), 3U);
  EXPECT_EQ(got()[1], partial_packet(large)) << "byte for byte";
  EXPECT_EQ(got()[2], complete_packet(last)) << "after it, not coalesced with those before";
  ASSERT_EQ(host.large.size(), 2U);
  EXPECT_EQ(host.large[1], (std::pair{std::size_t{1}, Segmentation{Kind::tcp, 20, 52, kSegment}}));
  EXPECT_EQ(coalescer.counters().large, 2U);
  EXPECT_EQ(coalescer.counters().segments, 2U + 4U);
  EXPECT_EQ(large_pool.available(), large_pool.capacity());
}

TEST_F(CoalescerTest, WritesNoLargePacketsToAHostThatDoesNotAcceptThem) {
  host.accepts_large = false;
  for (const auto& packet : stream(3)) add(complete_packet(packet));
  EXPECT_EQ(got().size(), 3U);
}

}  // namespace
}  // namespace ipoib::offload
