#include "softib/roce/frame.hpp"

#include <gtest/gtest.h>

#include <array>

#include "wire/connected_packet.hpp"

namespace softib::roce {
namespace {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

ConnectedPacket write_to(const Gid& from, const Gid& to) {
  ConnectedPacket packet;
  packet.opcode = ConnectedOpcode::write_only;
  packet.bth.destination = Qpn(0x123456);
  auto& grh = packet.grh.emplace();
  grh.sgid = from;
  grh.dgid = to;
  grh.traffic_class = 0x68;
  grh.hop_limit = 7;
  grh.flow_label = 0x54321;
  return packet;
}

TEST(RoceFrame, ReadsTheRouteOfAPacket) {
  const Gid from = gid_of_ipv4(0x0a000001);
  const Gid to = gid_of_ipv4(0x0a000002);
  std::array<std::uint8_t, ConnectedPacket::kMaxHeaderSize> bytes;
  auto packet = write_to(from, to);
  const auto size = packet.emit_headers(64, bytes);
  const auto route = route_of(ConstBytes(bytes).first(size));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->flow.source, from);
  EXPECT_EQ(route->flow.destination, to);
  EXPECT_EQ(route->options, (IpOptions{0x68, 7}));
  EXPECT_EQ(destination_of(ConstBytes(bytes).subspan(kRouteBytes)), Qpn(0x123456));
}

TEST(RoceFrame, APacketWithoutGrhHasNoRoute) {
  std::array<std::uint8_t, ConnectedPacket::kMaxHeaderSize> bytes;
  auto packet = write_to({}, {});
  packet.grh.reset();
  const auto size = packet.emit_headers(64, bytes);
  EXPECT_FALSE(route_of(ConstBytes(bytes).first(size)));
  EXPECT_FALSE(route_of(ConstBytes(bytes).first(20)));
}

// As rdma_flow_label_to_udp_sport() of Linux: 0x54321 is 0x0321 ^ 0x15 below the
// 14 bits of the port.
TEST(RoceFrame, TheSourcePortFollowsFromTheFlowLabel) {
  EXPECT_EQ(source_port_of(0), 0xc000);
  EXPECT_EQ(source_port_of(0x00001), 0xc001);
  EXPECT_EQ(source_port_of(0x54321), 0xc000 | ((0x54321 & 0x3fff) ^ (0x54321 >> 14)));
}

TEST(RoceFrame, AWrittenRouteMakesAWholePacket) {
  const Gid from = gid_of_ipv4(0x0a000001);
  const Gid to = gid_of_ipv4(0x0a000002);
  std::array<std::uint8_t, ConnectedPacket::kMaxHeaderSize + 64> bytes{};
  auto packet = write_to(from, to);
  const auto size = packet.emit_headers(64, bytes) + 64;
  write_route({from, to, 0xc001}, {3, 9}, size - kRouteBytes,
              std::span<std::uint8_t, kRouteBytes>(bytes.data(), kRouteBytes));
  const auto read = ConnectedPacket::parse(ConstBytes(bytes).first(size));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->payload.size(), 64U);
  EXPECT_EQ(read->lrh.dlid, Lid());
  EXPECT_EQ(read->grh->sgid, from);
  EXPECT_EQ(read->grh->dgid, to);
  EXPECT_EQ(read->grh->traffic_class, 3);
  EXPECT_EQ(read->grh->hop_limit, 9);
}

TEST(RoceFrame, AMulticastPacketHasTheMulticastLid) {
  std::array<std::uint8_t, kRouteBytes> bytes;
  const Gid group(0xff0e'0000'0000'0000, Guid(1));
  write_route({gid_of_ipv4(1), group, 0xc001}, {}, 12, bytes);
  EXPECT_EQ(ipoib::wire::Lrh::parse(bytes)->dlid, kRoceMulticastLid);
}

}  // namespace
}  // namespace softib::roce
