// Large receives (softibdv.h), compared with normal receives of the segments.
#include <array>

#include "large_packets.hpp"

namespace softib::hca {
namespace {

using namespace test;

constexpr std::uint64_t kLargeId = 77;

class LargeReceiveTest : public LargePackets {
 protected:
  LargeReceiveTest() {
    region = *whole.hca.register_memory(*whole.pd, memory.data(), memory.size(), address(0),
                                        IBV_ACCESS_LOCAL_WRITE);
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return std::bit_cast<std::uint64_t>(memory.data() + offset);
  }
  int post_large(std::uint64_t id = kLargeId, std::uint32_t size = kLargeReceive) {
    std::array sges{ibv_sge{address(0), kGrh, region.key},
                    ibv_sge{address(kGrh), size - std::uint32_t{kGrh}, region.key}};
    ibv_recv_wr wr{id, nullptr, sges.data(), sges.size()};
    ibv_recv_wr* bad = nullptr;
    const int error = whole.hca.post_receive(whole.qp, &wr, &bad, ReceiveKind::large);
    EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
    return error;
  }
  /// The received data without the GRH area.
  [[nodiscard]] Bytes message(const ibv_wc& completion) const {
    return {memory.begin() + kGrh, memory.begin() + completion.byte_len};
  }
  void expect_segmented(const StoredPacket& packet) {
    whole.post(kSegmentCount);
    whole.hca.receive(packet.arrived());
    const auto got = whole.poll();
    EXPECT_EQ(whole.hca.counters().at(1).drop_malformed, 0U);
    EXPECT_EQ(got.size(), kSegmentCount);
    for (const auto& each : got) {
      EXPECT_LT(each.wr_id, kSegmentCount);
      EXPECT_EQ(each.vendor_err, 0U);
    }
  }

  Bytes memory = Bytes(kLargeReceive);
  MemoryRegion region;
};

class LargeReceiveOf : public LargeReceiveTest, public testing::WithParamInterface<Shape> {};

TEST_P(LargeReceiveOf, ReceivesTheDataOfItsDatagrams) {
  const auto& shape = GetParam();
  for (auto* const handle : {&a.handle(6), &a.handle(6, whole.hca.ports()[1].gid())}) {
    ASSERT_EQ(post_large(), 0);
    one_by_one.post(kSegmentCount);
    const auto packet = sent(shape, *handle);
    whole.hca.receive(packet.arrived());
    for (const auto& each : packet.packets()) one_by_one.hca.receive({each, true});
    const auto got = whole.poll();
    const auto parts = one_by_one.poll();
    ASSERT_EQ(got.size(), 1U);
    ASSERT_EQ(parts.size(), kSegmentCount);
    EXPECT_EQ(got[0].wr_id, kLargeId);
    EXPECT_EQ(got[0].vendor_err, kSegmentSize);
    EXPECT_EQ(got[0].wc_flags, parts[0].wc_flags);
    EXPECT_EQ(got[0].src_qp, parts[0].src_qp);
    EXPECT_EQ(got[0].slid, parts[0].slid);
    if (handle->attributes.is_global != 0) {
      EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + kGrh, one_by_one.memory.begin()));
    }

    auto datagram = message(got[0]);
    const auto headers = tso_headers(shape).size();
    ASSERT_EQ(datagram.size(), headers + kPayload);
    const auto ip = ipoib::MutableBytes(datagram).subspan(kIp);
    if (shape.version == 4) {
      EXPECT_EQ(ipoib::load_be<std::uint16_t>(&ip[2]), ip.size());
      EXPECT_EQ(ipoib::wire::internet_checksum(ip.first(transport_of(shape) - kIp)), 0U);
    } else {
      EXPECT_EQ(ipoib::load_be<std::uint16_t>(&ip[4]), ip.size() - 40);
    }
    // The partial checksum of the large packet can be completed.
    const auto transport = ConstBytes(datagram).subspan(transport_of(shape));
    ipoib::store_be(&datagram[checksum_offset(shape)], ipoib::wire::internet_checksum(transport));
    EXPECT_EQ(transport_sum(datagram, shape), 0U);
    auto payload = datagram.begin() + static_cast<std::ptrdiff_t>(headers);
    for (std::size_t i = 0; i < kSegmentCount; ++i) {
      const auto* const part = one_by_one.memory.data() + i * kReceiveSize;
      const auto size = parts[i].byte_len - kGrh - headers;
      EXPECT_TRUE(std::equal(payload, payload + size, part + kGrh + headers));
      payload += size;
    }
  }
  EXPECT_EQ(whole.hca.counters().received_packets, 2U * kSegmentCount);
  EXPECT_EQ(whole.hca.counters().received_bytes, one_by_one.hca.counters().received_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, LargeReceiveOf, testing::ValuesIn(kTsoShapes),
                         [](const auto& each) { return each.param.name; });

TEST_F(LargeReceiveTest, WithoutALargeReceiveThePacketIsSegmented) {
  const auto packet = sent();
  ASSERT_EQ(post_large(), 0);
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.poll().size(), 1U);
  expect_segmented(packet);
  ASSERT_EQ(post_large(), 0);
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.poll().size(), 1U);
}

TEST_F(LargeReceiveTest, CompletesInOrderWithOtherReceives) {
  const auto packet = sent();
  const auto one = packet.packets().front();
  whole.post(2);
  ASSERT_EQ(post_large(), 0);
  whole.hca.receive({one, true});
  whole.hca.receive(packet.arrived());
  whole.hca.receive({one, true});
  const auto got = whole.poll();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].wr_id, 0U);
  EXPECT_EQ(got[1].wr_id, kLargeId);
  EXPECT_EQ(got[2].wr_id, 1U);
  EXPECT_EQ(whole.hca.counters().at(1).drop_malformed, 0U) << "it is delivered once";
}

TEST_F(LargeReceiveTest, WithoutChecksumOffloadThePacketIsSegmented) {
  ASSERT_EQ(post_large(), 0);
  expect_segmented(sent({"", 4, kTcp, 0}, a.handle(6), 0));
}

TEST_F(LargeReceiveTest, MulticastIsSegmented) {
  ASSERT_EQ(post_large(), 0);
  ASSERT_TRUE(whole.hca.attach(whole.qp, kGroup, kGroupLid));
  auto packet = sent({"", 4, kUdp, 0}, a.handle(kGroupLid.value(), kGroup));
  ipoib::store_be(&packet.bytes[8 + kGrh + 4], ipoib::kMulticastQpn.value());
  expect_segmented(packet);
}

TEST_F(LargeReceiveTest, LongerThanAnIpPacketIsSegmented) {
  ASSERT_EQ(post_large(), 0);
  auto packet = sent();
  const auto headers = packet.bytes.size() - kPayload;
  constexpr std::uint16_t kSize = 2000;
  const auto resize = [&](std::size_t payload) {
    packet.bytes.resize(headers + payload);
    packet.gso = {kSize, static_cast<std::uint16_t>((payload + kSize - 1) / kSize)};
  };
  constexpr std::size_t kMost = 65535 - 20 - 20;
  resize(kMost + 1);
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.hca.counters().at(1).drop_no_receive, 33U);
  resize(kMost);
  whole.hca.receive(packet.arrived());
  const auto got = whole.poll();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].byte_len, kGrh + kIp + 65535);
}

/// A large send with a single segment.
TEST_F(LargeReceiveTest, SingleSegmentUsesANormalReceive) {
  ASSERT_EQ(post_large(), 0);
  auto packet = sent();
  const auto headers = packet.bytes.size() - kPayload;
  packet.bytes.resize(headers + 100);
  packet.gso = {3000, 1};
  whole.post(1);
  whole.hca.receive(packet.arrived());
  const auto got = whole.poll();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 0U);
  EXPECT_EQ(got[0].vendor_err, 0U);
}

TEST_F(LargeReceiveTest, MoreSegmentsThanAHostAcceptsAreSegmented) {
  ASSERT_EQ(post_large(), 0);
  auto packet = sent();
  const auto headers = packet.bytes.size() - kPayload;
  const auto receive = [&](std::uint16_t packets) {
    packet.bytes.resize(headers + packets * std::size_t{100});
    packet.gso = {100, packets};
    whole.hca.receive(packet.arrived());
  };
  receive(ipoib::kMaxSegments + 1);
  EXPECT_EQ(whole.hca.counters().at(1).drop_no_receive, ipoib::kMaxSegments + 1);
  receive(ipoib::kMaxSegments);
  EXPECT_EQ(whole.poll().size(), 1U);
}

TEST_F(LargeReceiveTest, DroppedSegmentsAreCountedIndividually) {
  ASSERT_EQ(post_large(), 0);
  auto packet = sent();
  const auto drops = [&](std::uint64_t ReportedCounters::*counter, auto change) {
    auto changed = packet;
    change(changed.bytes);
    const auto before = whole.hca.counters().at(1).*counter;
    whole.hca.receive(changed.arrived());
    EXPECT_EQ(whole.hca.counters().at(1).*counter - before, kSegmentCount);
  };
  drops(&ReportedCounters::drop_lid, [](Bytes& bytes) { bytes[3] ^= 1; });
  drops(&ReportedCounters::drop_pkey, [](Bytes& bytes) { bytes[8 + 3] ^= 1; });
  drops(&ReportedCounters::drop_gid, [](Bytes& bytes) { bytes[2] = 0xc0; });
  drops(&ReportedCounters::drop_qkey, [](Bytes& bytes) { bytes[8 + 12 + 3] ^= 1; });
  drops(&ReportedCounters::drop_malformed, [](Bytes& bytes) { bytes.resize(bytes.size() / 2); });
  const auto headers = packet.bytes.size() - kPayload;
  packet.bytes.resize(headers + std::size_t{kSegmentCount} * 2048);
  packet.gso.size = 2048;
  drops(&ReportedCounters::drop_length, [](Bytes&) {});
  auto port = whole.hca.ports()[1];
  port.state = PortState::down;
  whole.hca.set_port(port);
  drops(&ReportedCounters::drop_port, [](Bytes&) {});
  EXPECT_TRUE(whole.poll().empty());
}

TEST_F(LargeReceiveTest, ChecksSizeAndQueueLimit) {
  EXPECT_EQ(post_large(0, kLargeReceive - 1), EINVAL);
  for (std::uint32_t i = 0; i < kMaxLargeReceives; ++i) EXPECT_EQ(post_large(i), 0);
  EXPECT_EQ(post_large(), ENOMEM);
  whole.hca.receive(sent().arrived());
  EXPECT_EQ(post_large(), ENOMEM) << "it occupies its entry until it is polled";
  EXPECT_EQ(whole.poll().size(), 1U);
  EXPECT_EQ(post_large(), 0);
}

TEST_F(LargeReceiveTest, DeregisteredMemoryIsALocalProtectionError) {
  ASSERT_EQ(post_large(), 0);
  ASSERT_TRUE(whole.hca.memory().remove(region.key));
  whole.hca.receive(sent().arrived());
  const auto got = whole.poll();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, kLargeId);
  EXPECT_EQ(got[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(whole.qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(whole.hca.counters().receive_errors, 1U);
  EXPECT_EQ(whole.hca.counters().at(1).drop_qp_state, kSegmentCount - 1U);
}

TEST_F(LargeReceiveTest, AreFlushedInErrorAndDiscardedInReset) {
  whole.post(1);
  ASSERT_EQ(post_large(), 0);
  whole.modify(whole.qp, IBV_QPS_ERR);
  ASSERT_EQ(post_large(78), 0);
  const auto got = whole.poll();
  ASSERT_EQ(got.size(), 3U);
  for (const auto& each : got) EXPECT_EQ(each.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(got[2].wr_id, 78U);

  whole.modify(whole.qp, IBV_QPS_RESET);
  EXPECT_EQ(post_large(), EINVAL);
  whole.bring(whole.qp, IBV_QPS_RTS);
  ASSERT_EQ(post_large(), 0);
  whole.modify(whole.qp, IBV_QPS_RESET);
  whole.bring(whole.qp, IBV_QPS_RTS);
  expect_segmented(sent());
}

TEST_F(LargeReceiveTest, ResetDiscardsUnpolledCompletions) {
  const auto packet = sent();
  ASSERT_EQ(post_large(), 0);
  whole.hca.receive(packet.arrived());
  whole.modify(whole.qp, IBV_QPS_RESET);
  EXPECT_TRUE(whole.poll().empty());
  whole.bring(whole.qp, IBV_QPS_RTS);
  ASSERT_EQ(post_large(), 0);
  whole.hca.receive(packet.arrived());
  ASSERT_TRUE(whole.hca.destroy(whole.qp));
  EXPECT_TRUE(whole.poll().empty());
}

}  // namespace
}  // namespace softib::hca
