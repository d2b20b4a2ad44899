// IPv4 packets without DF that exceed an MTU.
#include "link/fragments.hpp"

#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4.hpp"
#include "wire/transport.hpp"

namespace ipoib::link {
namespace {

constexpr std::size_t kPathMtu = 1020;  ///< IBA code 3, without the encapsulation header

class Fragments : public LinkFixture {
 protected:
  /// The peer's path has the MTU kPathMtu, less than the link's.
  void bring_up_with_small_path() {
    bring_up();
    send(kPeer);
    receive_arp(arp_from_peer(wire::ArpOperation::reply));
    grant_paths(7, 3);
    forget();
  }
  /// Forwarded for another host, without DF.
  [[nodiscard]] Frame forwarded(std::size_t size, Ipv4Address to = kPeer) {
    Frame frame = ip_packet(to, Ipv4Address(0x0a636363), size);
    frame.bytes()[6] = 0;
    frame.bytes()[9] = wire::kUdp;
    return frame;
  }
  /// The payloads of the fragments sent, in order. Checks their headers.
  [[nodiscard]] std::vector<std::uint8_t> payload_sent(std::size_t mtu) const {
    std::vector<std::uint8_t> payload;
    for (const Outgoing& sent : link->sends()) {
      EXPECT_EQ(wire::parse_encapsulation(sent.frame.bytes()), wire::EtherType::ipv4);
      const ConstBytes packet = sent.frame.bytes().subspan(kHeadroom);
      EXPECT_LE(packet.size(), mtu);
      const auto header = wire::Ipv4Header::parse(packet);
      EXPECT_TRUE(header);
      if (!header) return payload;
      EXPECT_EQ(header->total_length, packet.size());
      EXPECT_EQ(wire::internet_checksum(packet.first(20)), 0);
      const ConstBytes own = packet.subspan(header->header_size);
      payload.insert(payload.end(), own.begin(), own.end());
    }
    return payload;
  }
};

TEST_F(Fragments, OfAPacketOverThePathMtuAreSent) {
  bring_up_with_small_path();
  send(forwarded(2000));
  EXPECT_EQ(link->sends().size(), 2U);
  EXPECT_EQ(payload_sent(kPathMtu).size(), 1980U);
  EXPECT_EQ(link->sends()[1].qpn, kPeerHw.qpn);
  EXPECT_TRUE(link->to_host().empty()) << "no error";
  EXPECT_EQ(count(Counter::packets_fragmented), 1U);
  EXPECT_EQ(count(Counter::drop_path_mtu_exceeded), 0U);
}

TEST_F(Fragments, APacketOfThePathMtuIsSentAsItIs) {
  bring_up_with_small_path();
  send(forwarded(kPathMtu));
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(count(Counter::packets_fragmented), 0U);
}

TEST_F(Fragments, OfAParkedPacketAreSent) {
  bring_up();
  send(forwarded(2000));
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  link->sends().clear();
  grant_paths(7, 3);
  EXPECT_EQ(payload_sent(kPathMtu).size(), 1980U);
}

TEST_F(Fragments, OfAPacketOverTheLinkMtuAreSent) {
  bring_up();
  resolve_peer();
  send(forwarded(4000));
  EXPECT_EQ(link->sends().size(), 2U);
  EXPECT_EQ(payload_sent(2044).size(), 3980U);
}

TEST_F(Fragments, OfAPacketOverTheLinkMtuAreParked) {
  bring_up();
  send(forwarded(4000));
  EXPECT_EQ(link->get(kPeer, now)->parked, 2U);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  link->sends().clear();
  grant_paths(7, 3);
  EXPECT_EQ(link->sends().size(), 5U) << "2024 and 1956 bytes, fragmented again";
  EXPECT_EQ(payload_sent(kPathMtu).size(), 3980U);
}

TEST_F(Fragments, PacketsWithDfAreReported) {
  bring_up_with_small_path();
  Frame frame = forwarded(2000);
  frame.bytes()[6] = 0x40;
  send(std::move(frame));
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(count(Counter::too_big_answers), 1U);
}

TEST_F(Fragments, ALargePacketIsSegmentedFirst) {
  bring_up_with_small_path();
  Frame frame = forwarded(3828);  // 3800 bytes of payload: two segments of 1900
  store_be(&frame.bytes()[24], std::uint16_t{3808});
  frame.set_segmentation({Segmentation::Kind::udp, 20, 28, 1900});
  send(std::move(frame));
  EXPECT_EQ(link->sends().size(), 4U);
  EXPECT_EQ(payload_sent(kPathMtu).size(), 3800U + 2 * wire::kUdpHeader) << "two UDP headers";
  for (const Outgoing& sent : link->sends()) EXPECT_FALSE(sent.frame.is_large());
  const ConstBytes first = std::as_const(link->sends()[0].frame).bytes().subspan(kHeadroom);
  EXPECT_EQ(load_be<std::uint16_t>(&first[24]), 1908) << "the UDP length of one segment";
  const ConstBytes third = std::as_const(link->sends()[2].frame).bytes().subspan(kHeadroom);
  EXPECT_NE(load_be<std::uint16_t>(&first[wire::ipv4::kIdentification]),
            load_be<std::uint16_t>(&third[wire::ipv4::kIdentification]));
}

TEST_F(Fragments, NeedFramesForAllOfThem) {
  bring_up_with_small_path();
  Frame packet = forwarded(2000);
  std::vector<Frame> taken;
  while (pool.available() > 1) taken.push_back(pool.take());
  send(std::move(packet));
  EXPECT_TRUE(link->sends().empty()) << "one fragment alone is of no use";
  EXPECT_EQ(count(Counter::drop_no_frame), 1U);
  EXPECT_EQ(count(Counter::packets_fragmented), 0U);
}

}  // namespace
}  // namespace ipoib::link
