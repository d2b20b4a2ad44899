// Which packets continue a flow: each row changes one field of the second of two segments.
#include "offload/flow.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "packets.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using namespace test;

std::optional<FlowPacket> flow_in(ConstBytes packet) {
  return parse_flow(packet, wire::upper_layer(packet));
}

struct Row {
  const char* what;
  Kind kind;
  int version;
  std::function<void(Bytes&)> change;
};

void fix_checksums(Bytes& packet, const PacketSpec& spec) {
  if (spec.version == 4) {
    store_be(&packet[wire::ipv4::kChecksum], std::uint16_t{0});
    store_be(&packet[wire::ipv4::kChecksum], wire::internet_checksum(ConstBytes(packet).first(20)));
  }
  const std::size_t transport = transport_of(spec);
  const std::size_t field = transport + wire::checksum_offset(spec.kind);
  store_be(&packet[field], std::uint16_t{0});
  store_be(&packet[field],
           pseudo_header(packet, spec.kind).add(ConstBytes(packet).subspan(transport)).value());
}

bool second_continues(const Row& row) {
  PacketSpec spec{.kind = row.kind, .version = row.version, .payload = kSegment, .fragment = 0};
  const Bytes first = complete_packet(spec);
  spec.sequence += kSegment;
  ++spec.id;
  Bytes second = complete_packet(spec);
  if (row.change) {
    row.change(second);
    fix_checksums(second, spec);
  }
  const auto one = flow_in(first);
  const auto two = flow_in(second);
  return one && two && is_same_flow(*one, *two) && can_coalesce(*two) &&
         continues(*one, *two, 1, kSegment);
}

std::function<void(Bytes&)> flip(std::size_t at, std::uint8_t bits) {
  return [=](Bytes& packet) { packet[at] ^= bits; };
}

TEST(Flow, NextSegmentContinues) {
  for (const Kind kind : {Kind::tcp, Kind::udp}) {
    for (const int version : {4, 6}) EXPECT_TRUE(second_continues({"", kind, version, {}}));
  }
}

TEST(Flow, AnyDifferenceFromTheNextSegmentEndsTheGroup) {
  const std::vector<Row> rows{
      {"ECN", Kind::tcp, 4, flip(1, 1)},
      {"identification", Kind::tcp, 4, flip(5, 1)},
      {"don't fragment", Kind::tcp, 4, flip(6, 0x40)},
      {"more fragments", Kind::tcp, 4, flip(6, 0x20)},
      {"time to live", Kind::tcp, 4, flip(8, 1)},
      {"protocol", Kind::tcp, 4, flip(9, 23)},
      {"source", Kind::tcp, 4, flip(15, 1)},
      {"destination", Kind::tcp, 4, flip(19, 1)},
      {"source port", Kind::tcp, 4, flip(20, 1)},
      {"destination port", Kind::tcp, 4, flip(23, 1)},
      {"sequence", Kind::tcp, 4, flip(27, 1)},
      {"acknowledgement", Kind::tcp, 4, flip(31, 1)},
      {"URG", Kind::tcp, 4, flip(33, 0x20)},
      {"no ACK", Kind::tcp, 4, flip(33, 0x10)},
      {"RST", Kind::tcp, 4, flip(33, 0x04)},
      {"SYN", Kind::tcp, 4, flip(33, 0x02)},
      {"CWR", Kind::tcp, 4, flip(33, 0x80)},
      {"ECE", Kind::tcp, 4, flip(33, 0x40)},
      {"accurate ECN", Kind::tcp, 4, flip(32, 0x01)},
      {"window", Kind::tcp, 4, flip(35, 1)},
      {"urgent pointer", Kind::tcp, 4, flip(39, 1)},
      {"option", Kind::tcp, 4, flip(51, 1)},
      {"length of the options", Kind::tcp, 4, flip(32, 0x10)},
      {"traffic class", Kind::tcp, 6, flip(1, 0x10)},
      {"flow label", Kind::tcp, 6, flip(3, 1)},
      {"hop limit", Kind::tcp, 6, flip(7, 1)},
      {"source, IPv6", Kind::udp, 6, flip(8, 1)},
      {"destination, IPv6", Kind::udp, 6, flip(39, 1)},
      {"length of UDP", Kind::udp, 4, flip(25, 1)},
      {"longer than the first", Kind::udp, 4,
       [](Bytes& packet) {
         PacketSpec longer{.kind = Kind::udp, .payload = kSegment + 1, .fragment = 0};
         ++longer.id;
         packet = complete_packet(longer);
       }},
      {"IPv4 options", Kind::tcp, 4,
       [](Bytes& packet) {
         packet.insert(packet.begin() + 20, 4, std::uint8_t{1});
         packet[0] = 0x46;
         store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
       }},
  };
  for (const auto& row : rows) EXPECT_FALSE(second_continues(row)) << row.what;
}

TEST(Flow, IgnoresTheIdentificationOfAtomicPackets) {
  PacketSpec spec{.payload = kSegment};
  const Bytes first = complete_packet(spec);
  spec.sequence += kSegment;
  spec.id = 7;
  const Bytes second = complete_packet(spec);
  EXPECT_TRUE(continues(*flow_in(first), *flow_in(second), 1, kSegment));
}

TEST(Flow, OnlyDataIsCoalesced) {
  EXPECT_FALSE(can_coalesce(*flow_in(complete_packet({.payload = 0}))));
  auto without = complete_packet({.kind = Kind::udp});
  store_be(&without[20 + wire::udp::kChecksum], std::uint16_t{0});
  EXPECT_FALSE(can_coalesce(*flow_in(without))) << "without a checksum";
  for (const unsigned flag : {0x02U, 0x04U, 0x20U}) {  // SYN, RST, URG
    const auto flags = static_cast<std::uint16_t>(wire::tcp::kAck | flag);
    EXPECT_FALSE(can_coalesce(*flow_in(complete_packet({.flags = flags})))) << flag;
  }
  auto with_options = complete_packet({});
  with_options.insert(with_options.begin() + 20, 4, std::uint8_t{1});
  with_options[0] = 0x46;
  store_be(&with_options[2], static_cast<std::uint16_t>(with_options.size()));
  EXPECT_FALSE(can_coalesce(*flow_in(with_options), true)) << "with IPv4 options";
}

TEST(Flow, DhcpIsNotCoalesced) {
  const PacketSpec spec{.kind = Kind::udp};
  for (std::uint16_t port = 66; port <= 69; ++port) {
    auto packet = complete_packet(spec);
    store_be(&packet[20 + wire::udp::kDestinationPort], port);
    fix_checksums(packet, spec);
    EXPECT_EQ(can_coalesce(*flow_in(packet)), port < 67 || port > 68) << port;
  }
}

TEST(Flow, DoesNotVerifyChecksumsAgain) {
  auto wrong = complete_packet({});
  wrong.back() ^= 1;
  EXPECT_FALSE(can_coalesce(*flow_in(wrong)));
  EXPECT_TRUE(can_coalesce(*flow_in(wrong), true));
  auto without = complete_packet({.kind = Kind::udp});
  store_be(&without[20 + wire::udp::kChecksum], std::uint16_t{0});
  EXPECT_FALSE(can_coalesce(*flow_in(without), true)) << "without a checksum";
}

TEST(Flow, MalformedPacketsHaveNoFlow) {
  const Bytes packet = complete_packet({.payload = 100});
  EXPECT_TRUE(flow_in(packet));
  for (std::size_t size = 0; size < packet.size(); ++size) {
    EXPECT_FALSE(flow_in(ConstBytes(packet).first(size)));
  }
  Bytes longer = packet;
  longer.push_back(0);
  EXPECT_FALSE(flow_in(longer)) << "bytes after the packet";
  EXPECT_FALSE(flow_in(complete_packet({.fragment = 0x2000})));
  EXPECT_FALSE(flow_in(complete_packet({.fragment = 0x0001})));
  Bytes icmp = packet;
  icmp[9] = 1;
  EXPECT_FALSE(flow_in(icmp));
}

}  // namespace
}  // namespace ipoib::offload
