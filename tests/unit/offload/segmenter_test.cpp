#include "offload/segmenter.hpp"

#include <gtest/gtest.h>

#include "packets.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using namespace test;

constexpr std::size_t kMss = 1448;

struct Shape {
  Kind kind;
  int version;
};

class EachKind : public ::testing::TestWithParam<Shape> {
 protected:
  [[nodiscard]] PacketSpec spec() const {
    PacketSpec out;
    out.kind = GetParam().kind;
    out.version = GetParam().version;
    out.payload = 10 * kMss + 77;
    return out;
  }
  FramePool pool{1, 70'000};
};
INSTANTIATE_TEST_SUITE_P(Segments, EachKind,
                         ::testing::Values(Shape{Kind::tcp, 4}, Shape{Kind::tcp, 6},
                                           Shape{Kind::udp, 4}, Shape{Kind::udp, 6}));

TEST_P(EachKind, HasValidChecksumsAndTheWholePayload) {
  const Frame frame = large_frame(pool, spec(), kMss);
  ASSERT_TRUE(frame.is_large());
  const auto segments = segments_of(frame);
  ASSERT_EQ(segments.size(), frame.datagrams());
  ASSERT_EQ(segments.size(), 11U);
  const std::size_t headers = payload_of(spec());
  Bytes payload;
  for (const auto& segment : segments) {
    EXPECT_TRUE(has_valid_checksums(segment, spec()));
    EXPECT_LE(segment.size(), frame.datagram_size());
    payload.insert(payload.end(), segment.begin() + static_cast<std::ptrdiff_t>(headers),
                   segment.end());
  }
  EXPECT_EQ(segments.front().size(), frame.datagram_size());
  EXPECT_EQ(segments.back().size(), headers + 77);
  const auto whole = frame.bytes().subspan(headers);
  EXPECT_EQ(payload, Bytes(whole.begin(), whole.end()));
}

TEST_P(EachKind, HandlesOddSizes) {
  auto odd = spec();
  odd.payload = 999;
  for (const std::size_t size : {17U, 501U, 998U}) {
    const Frame frame = large_frame(pool, odd, size);
    for (const auto& segment : segments_of(frame))
      EXPECT_TRUE(has_valid_checksums(segment, odd)) << size;
  }
}

/// The TCP or UDP checksum field of a packet.
std::uint16_t checksum_in(const Bytes& packet, const PacketSpec& spec) {
  return load_be<std::uint16_t>(&packet[transport_of(spec) + wire::checksum_offset(spec.kind)]);
}

/// Changes the last word of a packet with this checksum so that its checksum becomes zero.
void make_zero(MutableBytes packet, std::uint16_t checksum) {
  auto* const last = &packet[packet.size() - 2];
  store_be(last, wire::InternetChecksum().add(load_be<std::uint16_t>(last)).add(checksum).sum());
}

TEST_P(EachKind, SendsAZeroChecksumExceptForUdp) {
  auto even = spec();
  even.payload = 2 * kMss;
  const std::uint16_t as_sent = even.kind == Kind::udp ? 0xffff : 0;
  Frame frame = large_frame(pool, even, kMss);
  make_zero(frame.bytes(), checksum_in(segments_of(frame).back(), even));
  EXPECT_EQ(checksum_in(segments_of(frame).back(), even), as_sent);

  Bytes packet = partial_packet(even);
  make_zero(packet, checksum_in(complete_packet(even), even));
  EXPECT_TRUE(complete_checksum(packet, transport_of(even), wire::checksum_offset(even.kind)));
  EXPECT_EQ(checksum_in(packet, even), as_sent);
}

/// The segments, with their checksum fields set to zero.
std::vector<Bytes> without_checksums(const Frame& frame, const PacketSpec& like,
                                     bool checksum_offload) {
  std::vector<Bytes> out;
  for (auto segmenter = make_segmenter(frame, 0, checksum_offload); !segmenter.done();) {
    EXPECT_NE(segmenter.computes_checksums(), checksum_offload);
    auto& segment = out.emplace_back(segmenter.header_size());
    const auto payload = segmenter.next(segment.data());
    segment.insert(segment.end(), payload.begin(), payload.end());
    EXPECT_EQ(has_valid_checksums(segment, like), !checksum_offload);
    if (like.version == 4) store_be(&segment[wire::ipv4::kChecksum], std::uint16_t{0});
    store_be(&segment[transport_of(like) + wire::checksum_offset(like.kind)], std::uint16_t{0});
  }
  return out;
}

TEST_P(EachKind, ChecksumOffloadChangesOnlyTheChecksums) {
  const Frame frame = large_frame(pool, spec(), kMss);
  EXPECT_EQ(without_checksums(frame, spec(), true), without_checksums(frame, spec(), false));
}

TEST(Segmenter, ComputesChecksumsBehindExtensionHeaders) {
  FramePool pool(1, 70'000);
  Frame frame = large_frame(pool, {.version = 6, .payload = 3 * kMss}, kMss);
  auto plan = frame.segmentation();
  plan.transport = static_cast<std::uint16_t>(plan.transport + 8);  // after an extension header
  plan.payload = static_cast<std::uint16_t>(plan.payload + 8);
  frame.set_segmentation(plan);
  EXPECT_TRUE(make_segmenter(frame, 0, true).computes_checksums());
}

TEST_P(EachKind, CopiesTheBytesBeforeTheIpHeader) {
  Frame frame = large_frame(pool, spec(), kMss);
  *frame.prepend(4) = 0x86;
  auto segmenter = make_segmenter(frame, 4);
  Bytes header(segmenter.header_size());
  (void)segmenter.next(header.data());
  EXPECT_EQ(header[0], 0x86);
  EXPECT_EQ(header[4], frame.bytes()[4]);
  EXPECT_EQ(frame.datagram_size(), 4 + payload_of(spec()) + kMss);
}

TEST(Segmenter, NumbersTheSegmentsOfTcpOverIpv4) {
  FramePool pool(1, 70'000);
  const Frame frame = large_frame(pool, {.payload = 3 * kMss}, kMss);
  std::uint32_t sequence = 0xfffff000;
  std::uint16_t id = 0xfffe;
  for (const auto& segment : segments_of(frame)) {
    EXPECT_EQ(load_be<std::uint32_t>(&segment[20 + wire::tcp::kSequence]), sequence);
    EXPECT_EQ(load_be<std::uint16_t>(&segment[wire::ipv4::kIdentification]), id);
    sequence += kMss;
    ++id;
  }
}

TEST(Segmenter, CwrIsOnlyInTheFirstAndFinAndPshOnlyInTheLastSegment) {
  FramePool pool(1, 70'000);
  const std::uint16_t flags =
      wire::tcp::kAck | wire::tcp::kPush | wire::tcp::kFin | wire::tcp::kCongestionReduced;
  const Frame frame = large_frame(pool, {.payload = 3 * kMss, .flags = flags}, kMss);
  std::vector<unsigned> seen;
  for (const auto& segment : segments_of(frame)) {
    seen.push_back(load_be<std::uint16_t>(&segment[20 + wire::tcp::kOffsetAndFlags]) &
                   wire::tcp::kFlags);
  }
  EXPECT_EQ(seen,
            (std::vector<unsigned>{wire::tcp::kAck | wire::tcp::kCongestionReduced, wire::tcp::kAck,
                                   wire::tcp::kAck | wire::tcp::kPush | wire::tcp::kFin}));
}

TEST(PlanSegments, RefusesPacketsThatCannotBeSegmented) {
  const Bytes packet = partial_packet({.payload = 3000});
  EXPECT_TRUE(plan_segments(packet, Kind::tcp, 20, 1000));
  EXPECT_FALSE(plan_segments(packet, Kind::none, 20, 1000));
  EXPECT_FALSE(plan_segments(packet, Kind::udp, 20, 1000)) << "another protocol";
  Bytes like_tcp = packet;
  like_tcp[24 + wire::tcp::kOffsetAndFlags] = 0x50;
  EXPECT_FALSE(plan_segments(like_tcp, Kind::tcp, 24, 1000)) << "the IPv4 header ends before";
  EXPECT_FALSE(plan_segments(packet, Kind::tcp, 4000, 1000)) << "outside";
  EXPECT_FALSE(plan_segments(packet, Kind::tcp, 20, 0));
  EXPECT_EQ(plan_segments(packet, Kind::tcp, 20, 3000)->count(packet.size()), 1U);
  EXPECT_EQ(plan_segments(packet, Kind::tcp, 20, 2999)->count(packet.size()), 2U);
  EXPECT_FALSE(plan_segments(partial_packet({.payload = 0}), Kind::tcp, 20, 1000));
  EXPECT_TRUE(plan_segments(packet, Kind::tcp, 20, 47)) << "3000 bytes in 64 segments";
  EXPECT_FALSE(plan_segments(packet, Kind::tcp, 20, 46)) << "more than kMaxSegments";
  EXPECT_FALSE(plan_segments(ConstBytes(packet).first(2000), Kind::tcp, 20, 1000)) << "truncated";
  const Bytes other = partial_packet({.version = 6, .payload = 3000});
  EXPECT_TRUE(plan_segments(other, Kind::tcp, 40, 1000));
  EXPECT_FALSE(plan_segments(other, Kind::udp, 40, 1000)) << "another next header";
  EXPECT_FALSE(plan_segments(other, Kind::tcp, 39, 1000));
  const Bytes fragment = partial_packet({.payload = 3000, .fragment = 0x2000});
  EXPECT_FALSE(plan_segments(fragment, Kind::tcp, 20, 1000));
  Bytes short_header = packet;
  short_header[20 + wire::tcp::kOffsetAndFlags] = 0x40;
  EXPECT_FALSE(plan_segments(short_header, Kind::tcp, 20, 1000)) << "a TCP header of 16 bytes";
}

TEST(CompleteChecksum, CompletesAPartialChecksum) {
  for (const Kind kind : {Kind::tcp, Kind::udp}) {
    const PacketSpec spec{.kind = kind, .payload = 333};
    Bytes packet = partial_packet(spec);
    EXPECT_FALSE(has_valid_checksums(packet, spec));
    EXPECT_TRUE(complete_checksum(packet, 20, wire::checksum_offset(kind)));
    EXPECT_TRUE(has_valid_checksums(packet, spec));
  }
  Bytes small(30);
  EXPECT_FALSE(complete_checksum(small, 31, 0));
  EXPECT_FALSE(complete_checksum(small, 20, 9));
  EXPECT_TRUE(complete_checksum(small, 20, 8));
}

}  // namespace
}  // namespace ipoib::offload
