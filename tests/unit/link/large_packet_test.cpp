// Large packets of the host pass through the link as one frame.
#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

constexpr std::size_t kHeaders = 52;

class LargePacket : public LinkFixture {
 protected:
  /// A packet of two or more segments; the first is `packet` bytes long.
  [[nodiscard]] Frame large(std::size_t packet, std::size_t size = 3800) {
    Frame frame = ip_packet(kPeer, kOwnIp, size);
    frame.set_segmentation(
        {Segmentation::Kind::tcp, 20, kHeaders, static_cast<std::uint16_t>(packet - kHeaders)});
    return frame;
  }
};

TEST_F(LargePacket, StaysOneFrame) {
  bring_up();
  resolve_peer();
  send(large(2044));
  ASSERT_EQ(link->sends().size(), 1U);
  const Frame& frame = link->sends()[0].frame;
  EXPECT_EQ(frame.size(), kHeadroom + 3800);
  EXPECT_EQ(frame.datagram_size(), kHeadroom + 2044) << "each segment has an encapsulation header";
  EXPECT_EQ(frame.segmentation().transport, kHeadroom + 20);
  EXPECT_EQ(frame.datagrams(), 2U);
  EXPECT_EQ(count(Counter::tx_packets), 2U) << "one to resolve the peer, and this one";
  EXPECT_EQ(link->get(kPeer, now)->uses, 2U);
}

TEST_F(LargePacket, ReceivedLargePacketGoesToTheHostUnsegmented) {
  bring_up();
  Frame frame = ip_packet(kOwnIp, kPeer, 3800);
  store_be<std::uint32_t>(frame.prepend(kHeadroom), 0x08000000);
  frame.set_segmentation({Segmentation::Kind::tcp, kHeadroom + 20, kHeadroom + kHeaders, 1500});
  receive(datagram(std::move(frame)));
  ASSERT_EQ(link->to_host().size(), 1U);
  const Frame& got = link->to_host()[0];
  EXPECT_EQ(got.size(), 3800U);
  EXPECT_EQ(got.segmentation(), (Segmentation{Segmentation::Kind::tcp, 20, kHeaders, 1500}));
  EXPECT_EQ(count(Counter::rx_packets), 3U);
}

TEST_F(LargePacket, SegmentOverTheMtuCausesAnIcmpError) {
  bring_up();
  resolve_peer();
  send(large(2045));
  EXPECT_TRUE(link->sends().empty());
  ASSERT_EQ(link->to_host().size(), 1U);
  EXPECT_FALSE(link->to_host()[0].is_large()) << "the ICMP message reuses the frame";
  EXPECT_EQ(count(Counter::drop_packet_too_big), 1U);
}

TEST_F(LargePacket, PathMtuAppliesToASegment) {
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  grant_paths(7, 3);
  forget();
  send(large(1020, 1500));
  EXPECT_EQ(link->sends().size(), 1U);
  send(large(1021, 1500));
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(count(Counter::drop_path_mtu_exceeded), 1U);
}

TEST_F(LargePacket, IsParkedAsOneFrame) {
  bring_up();
  send(large(2044));
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  link->sends().clear();
  grant_paths();
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_TRUE(link->sends()[0].frame.is_large());
}

TEST_F(LargePacket, ParkedBytesAreLimited) {
  config.limits.parked_bytes_per_neighbour =
      3 * (ParkingBudget::kPacketOverhead + kHeadroom + 3800);
  config.limits.parked_bytes = 5 * pool.slot_size();
  bring_up();
  for (int i = 0; i < 4; ++i) send(large(2044));
  EXPECT_EQ(count(Counter::drop_parked_limit), 1U);
  for (int i = 0; i < 3; ++i) send(Ipv4Address(0x0a2c0077));
  EXPECT_EQ(count(Counter::drop_parked_total_limit), 1U);
  EXPECT_EQ(link->get(kPeer, now)->parked, 3U);
}

TEST_F(LargePacket, IsNotCompletedAsDhcpOrNd) {
  bring_up();
  resolve_peer();
  Frame frame = ip_packet(kPeer, kOwnIp, 3000);
  constexpr std::size_t kProtocol = 9;
  frame.bytes()[kProtocol] = wire::kUdp;
  constexpr std::uint16_t kDhcpServer = 67;
  store_be(&frame.bytes()[22], kDhcpServer);
  frame.set_segmentation({Segmentation::Kind::udp, 20, 28, 1000});
  const std::vector<std::uint8_t> before(frame.bytes().begin(), frame.bytes().end());
  send(std::move(frame));
  ASSERT_EQ(link->sends().size(), 1U);
  const auto sent = std::as_const(link->sends()[0].frame).bytes().subspan(kHeadroom);
  EXPECT_TRUE(std::ranges::equal(sent, before));
  EXPECT_EQ(count(Counter::dhcp_left_alone), 0U);
}

}  // namespace
}  // namespace ipoib::link
