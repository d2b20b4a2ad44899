#include "linux/virtio_header.hpp"

#include <gtest/gtest.h>

#include "tests/unit/offload/packets.hpp"

namespace ipoib::linux {
namespace {

using namespace offload::test;

class VirtioHeaderTest : public ::testing::Test {
 protected:
  Frame frame_of(const PacketSpec& like) {
    const Bytes packet = partial_packet(like);
    Frame frame = pool.take();
    frame.window(4, packet.size());
    std::copy(packet.begin(), packet.end(), frame.bytes().begin());
    return frame;
  }

  FramePool pool{1, 8192};
  const PacketSpec spec{.payload = 3000};
  const VirtioHeader header{.flags = virtio::kNeedsChecksum,
                            .gso_type = virtio::kTcpOverIpv4,
                            .hdr_len = 52,
                            .gso_size = 1000,
                            .csum_start = 20,
                            .csum_offset = 16};
};

TEST_F(VirtioHeaderTest, AcceptsCompletePacket) {
  Frame frame = frame_of(spec);
  EXPECT_TRUE(apply_header({}, frame));
  EXPECT_FALSE(frame.is_large());
  EXPECT_TRUE(std::ranges::equal(frame.bytes(), partial_packet(spec)));
}

TEST_F(VirtioHeaderTest, CompletesPartialChecksum) {
  Frame frame = frame_of(spec);
  EXPECT_TRUE(
      apply_header({.flags = virtio::kNeedsChecksum, .csum_start = 20, .csum_offset = 16}, frame));
  EXPECT_TRUE(has_valid_checksums(frame.bytes(), spec));
}

TEST_F(VirtioHeaderTest, OffsetsOfAnEthernetFrameIncludeItsHeader) {
  constexpr std::size_t kEthernet = 14;
  const auto ethernet_frame = [&](std::uint8_t type) {
    Frame frame = frame_of(spec);
    frame.window(18, frame.size());
    std::ranges::copy(partial_packet(spec), frame.bytes().begin());
    std::fill_n(frame.prepend(kEthernet), kEthernet, std::uint8_t{0});
    frame.bytes()[12] = 0x08;
    frame.bytes()[13] = type;
    return frame;
  };
  VirtioHeader shifted = header;
  shifted.csum_start += kEthernet;
  shifted.hdr_len += kEthernet;
  {
    Frame frame = ethernet_frame(0x00);
    EXPECT_TRUE(apply_header_to_ethernet(shifted, frame));
    EXPECT_EQ(frame.headroom(), 18U) << "the packet is in the window";
    EXPECT_EQ(frame.segmentation(), (Segmentation{Segmentation::Kind::tcp, 20, 52, 1000}));
  }
  {
    Frame frame = ethernet_frame(0x00);
    EXPECT_TRUE(apply_header_to_ethernet(
        {.flags = virtio::kNeedsChecksum, .csum_start = 34, .csum_offset = 16}, frame));
    EXPECT_TRUE(has_valid_checksums(frame.bytes(), spec));
  }
  {
    Frame frame = ethernet_frame(0x00);
    shifted.csum_start = 3;
    EXPECT_FALSE(apply_header_to_ethernet(shifted, frame)) << "within the Ethernet header";
  }
  Frame frame = ethernet_frame(0x06);
  EXPECT_TRUE(apply_header_to_ethernet(shifted, frame)) << "not IP";
  EXPECT_FALSE(frame.is_large());
  frame.window(4, 13);
  EXPECT_FALSE(apply_header_to_ethernet({}, frame)) << "too short";
}

TEST_F(VirtioHeaderTest, RemovesTheTagOfAVlan) {
  const Bytes packet = partial_packet(spec);
  const auto tagged_frame = [&] {
    Frame frame = frame_of(spec);
    frame.window(22, packet.size());
    std::ranges::copy(packet, frame.bytes().begin());
    auto* const front = frame.prepend(18);
    for (std::uint8_t i = 0; i < 12; ++i) front[i] = i;
    wire::VlanTag{.vlan = VlanId(18)}.emit(front + 12);
    front[16] = 0x08;
    front[17] = 0x00;
    return frame;
  };
  {
    VirtioHeader tagged = moved_by(18, header);
    EXPECT_EQ(tagged.csum_start, 38U);
    EXPECT_EQ(tagged.hdr_len, 70U);
    Frame frame = tagged_frame();
    EXPECT_EQ(remove_tag(tagged, frame), (wire::VlanTag{.vlan = VlanId(18)}));
    EXPECT_EQ(frame.size(), 14 + packet.size());
    for (std::uint8_t i = 0; i < 12; ++i) EXPECT_EQ(frame.bytes()[i], i) << "the addresses";
    EXPECT_EQ(tagged.csum_start, 34U);
    EXPECT_EQ(tagged.hdr_len, 66U);
    EXPECT_TRUE(apply_header_to_ethernet(tagged, frame));
    EXPECT_EQ(frame.segmentation(), (Segmentation{Segmentation::Kind::tcp, 20, 52, 1000}));
    EXPECT_TRUE(std::ranges::equal(frame.bytes(), packet));
  }
  Frame frame = tagged_frame();
  VirtioHeader wrong{.flags = virtio::kNeedsChecksum, .csum_start = 17};
  EXPECT_FALSE(remove_tag(wrong, frame)) << "the checksum begins within the tag";
  EXPECT_EQ(wrong.csum_start, 17U);
  EXPECT_EQ(frame.size(), 18 + packet.size()) << "unchanged";
  VirtioHeader none{};
  EXPECT_TRUE(remove_tag(none, frame));
  EXPECT_EQ(none.csum_start, 0U) << "no checksum, so no offset";
  EXPECT_FALSE(remove_tag(none, frame)) << "there is none any more";
}

TEST_F(VirtioHeaderTest, SetsSegmentation) {
  Frame frame = frame_of(spec);
  EXPECT_TRUE(apply_header(header, frame));
  EXPECT_EQ(frame.segmentation(), (Segmentation{Segmentation::Kind::tcp, 20, 52, 1000}));
  VirtioHeader ecn = header;
  ecn.gso_type |= virtio::kEcn;
  EXPECT_TRUE(apply_header(ecn, frame));
}

TEST_F(VirtioHeaderTest, TreatsOneSegmentAsAPacket) {
  Frame frame = frame_of(spec);
  VirtioHeader one = header;
  one.gso_size = 3000;
  EXPECT_TRUE(apply_header(one, frame));
  EXPECT_FALSE(frame.is_large());
  EXPECT_TRUE(has_valid_checksums(frame.bytes(), spec));
}

TEST_F(VirtioHeaderTest, RejectsHeaderThatDoesNotFitThePacket) {
  Frame frame = frame_of(spec);
  const auto refused = [&](auto change) {
    VirtioHeader wrong = header;
    change(wrong);
    return !apply_header(wrong, frame);
  };
  EXPECT_TRUE(refused([](auto& h) { h.flags = 0; })) << "a checksum that is not partial";
  EXPECT_TRUE(refused([](auto& h) { h.csum_offset = 6; })) << "the checksum of UDP";
  EXPECT_TRUE(refused([](auto& h) { h.csum_start = 24; }));
  EXPECT_TRUE(refused([](auto& h) { h.gso_size = 0; }));
  EXPECT_TRUE(refused([](auto& h) { h.gso_type = 77; }));
  EXPECT_TRUE(refused([](auto& h) {
    h = {.flags = virtio::kNeedsChecksum, .csum_start = 3051, .csum_offset = 0};
  }));
  EXPECT_FALSE(frame.is_large());
}

TEST_F(VirtioHeaderTest, DescribesLargePacket) {
  for (const int version : {4, 6}) {
    for (const auto kind : {Kind::tcp, Kind::udp}) {
      const PacketSpec large{.kind = kind, .version = version, .payload = 3000};
      const auto transport = static_cast<std::uint16_t>(transport_of(large));
      const Segmentation how{kind, transport, static_cast<std::uint16_t>(payload_of(large)), 1000};
      Frame frame = frame_of(large);
      EXPECT_TRUE(apply_header(header_of(partial_packet(large), how), frame));
      EXPECT_EQ(frame.segmentation(), how);
    }
  }
}

TEST_F(VirtioHeaderTest, SetsEcnForCwr) {
  const Segmentation how{Kind::tcp, 20, 52, 1000};
  PacketSpec large{.payload = 3000};
  EXPECT_EQ(header_of(partial_packet(large), how).gso_type, virtio::kTcpOverIpv4);
  large.flags |= wire::tcp::kCongestionReduced;
  EXPECT_EQ(header_of(partial_packet(large), how).gso_type, virtio::kTcpOverIpv4 | virtio::kEcn);
  const Segmentation datagrams{Kind::udp, 20, 28, 1000};
  const PacketSpec udp{.kind = Kind::udp, .payload = 3000};
  EXPECT_EQ(header_of(partial_packet(udp), datagrams).gso_type, virtio::kUdp);
}

}  // namespace
}  // namespace ipoib::linux
