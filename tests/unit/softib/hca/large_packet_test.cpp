// Reception of large packets, compared with the reception of their segments one by one. The
// contents of the segments are tested in large_send_test.cpp.
#include "large_packets.hpp"

namespace softib::hca {
namespace {

using namespace test;

class LargePacketTest : public LargePackets {
 protected:
  /// Delivers the same packet to both HCAs.
  void expect_alike(const StoredPacket& packet) {
    whole.hca.receive(packet.arrived());
    for (const auto& each : packet.packets()) {
      one_by_one.hca.receive({each, packet.checksums_valid});
    }
    EXPECT_EQ(whole.memory, one_by_one.memory);
    const auto got = whole.poll();
    const auto expected = one_by_one.poll();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].wr_id, expected[i].wr_id);
      EXPECT_EQ(got[i].status, expected[i].status);
      EXPECT_EQ(got[i].byte_len, expected[i].byte_len);
      EXPECT_EQ(got[i].wc_flags, expected[i].wc_flags);
      EXPECT_EQ(got[i].src_qp, expected[i].src_qp);
      EXPECT_EQ(got[i].slid, expected[i].slid);
    }
    EXPECT_EQ(whole.hca.counters().received_bytes, one_by_one.hca.counters().received_bytes);
    EXPECT_EQ(whole.hca.counters().at(1).drop_no_receive,
              one_by_one.hca.counters().at(1).drop_no_receive);
  }
};

class LargePacketOf : public LargePacketTest, public testing::WithParamInterface<Shape> {};

TEST_P(LargePacketOf, IsReceivedLikeItsSegments) {
  for (auto* const handle : {&a.handle(6), &a.handle(6, whole.hca.ports()[1].gid())}) {
    for (const unsigned flags : {0U, unsigned{IBV_SEND_IP_CSUM}}) {
      whole.post(kSegmentCount);
      one_by_one.post(kSegmentCount);
      expect_alike(sent(GetParam(), *handle, flags));
    }
  }
  EXPECT_EQ(whole.hca.counters().received_packets, 4U * kSegmentCount);
}

TEST_P(LargePacketOf, SizeIsThatOfAllSegments) {
  for (auto* const handle : {&a.handle(6), &a.handle(6, whole.hca.ports()[1].gid())}) {
    const auto packet = sent(GetParam(), *handle);
    std::size_t bytes = 0;
    for (const auto& each : packet.packets()) {
      EXPECT_TRUE(ipoib::wire::UdPacket::parse(each));
      bytes += each.size();
    }
    EXPECT_EQ(segmented_size(packet.arrived()), bytes);
    EXPECT_EQ(sink.bytes, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LargePacketOf, testing::ValuesIn(kTsoShapes),
                         [](const auto& each) { return each.param.name; });

TEST_F(LargePacketTest, MulticastReachesAllAttachedQueuePairs) {
  for (auto* const host : {&whole, &one_by_one}) {
    auto& second = host->make_qp();
    ASSERT_TRUE(host->hca.attach(host->qp, kGroup, kGroupLid));
    ASSERT_TRUE(host->hca.attach(second, kGroup, kGroupLid));
    host->post(kSegmentCount);
    for (std::size_t i = 0; i < kSegmentCount; ++i) {
      EXPECT_EQ(host->receive_into(second, (10 + i) * kReceiveSize, kReceiveSize, 10 + i), 0);
    }
  }
  auto packet = sent({"", 4, kUdp, 0}, a.handle(kGroupLid.value(), kGroup));
  // The multicast QPN.
  auto& bytes = packet.bytes;
  ipoib::store_be(&bytes[8 + kGrh + 4], ipoib::kMulticastQpn.value());
  expect_alike(packet);
  EXPECT_EQ(whole.hca.counters().received_packets, 2U * kSegmentCount);
}

TEST_F(LargePacketTest, DroppedSegmentsAreCountedIndividually) {
  const auto packet = sent();
  whole.post(2);
  one_by_one.post(2);
  expect_alike(packet);
  EXPECT_EQ(whole.hca.counters().at(1).drop_no_receive, kSegmentCount - 2U);
  auto port = whole.hca.ports()[1];
  port.state = PortState::down;
  whole.hca.set_port(port);
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.hca.counters().at(1).drop_port, kSegmentCount);
}

TEST_F(LargePacketTest, FirstTooSmallReceiveEndsDelivery) {
  const auto packet = sent();
  for (auto* const host : {&whole, &one_by_one}) {
    EXPECT_EQ(host->receive_into(host->qp, 0, 100), 0);
    host->post(2);
  }
  expect_alike(packet);
  EXPECT_EQ(whole.qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(whole.hca.counters().at(1).drop_qp_state, kSegmentCount - 1U);
}

// Malformed large packets.

TEST_F(LargePacketTest, TruncatedHeadersAreMalformed) {
  whole.post(kQueue);
  const auto packet = sent({"", 6, kTcp, 0}, a.handle(6, whole.hca.ports()[1].gid()));
  const std::size_t headers = packet.bytes.size() - kPayload;
  for (std::size_t size = 0; size <= headers; ++size) {
    const ArrivedPacket cut_off{ConstBytes(packet.bytes).first(size), true, packet.gso};
    whole.hca.receive(cut_off);
    EXPECT_EQ(segmented_size(cut_off), size);
    std::size_t seen = 0;
    for_each_packet(cut_off, [&](ConstBytes as_it_is) { seen += as_it_is.size(); });
    EXPECT_EQ(seen, size);
  }
  EXPECT_EQ(whole.hca.counters().at(1).drop_malformed, kSegmentCount * (headers + 1));
  EXPECT_TRUE(whole.poll().empty());
}

TEST_F(LargePacketTest, SegmentsLargerThanTheMtuAreDropped) {
  whole.post(kQueue);
  auto packet = sent();
  const auto headers = packet.bytes.size() - kPayload;
  packet.bytes.resize(headers + 20 * 2048);
  packet.gso = {2048, 20};
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.hca.counters().at(1).drop_length, 20U);
  packet.gso = {4096, 10};
  whole.hca.receive(packet.arrived());
  EXPECT_EQ(whole.hca.counters().at(1).drop_malformed, 10U) << "larger than any MTU";
}

TEST_F(LargePacketTest, WrongSegmentCountIsMalformed) {
  whole.post(kQueue);
  auto packet = sent();
  for (const int packets : {kSegmentCount - 1, kSegmentCount + 1}) {
    packet.gso.packets = static_cast<std::uint16_t>(packets);
    whole.hca.receive(packet.arrived());
    EXPECT_EQ(segmented_size(packet.arrived()), packet.bytes.size());
  }
  EXPECT_EQ(whole.hca.counters().at(1).drop_malformed, 2U * kSegmentCount);
  EXPECT_TRUE(whole.poll().empty());
}

}  // namespace
}  // namespace softib::hca
