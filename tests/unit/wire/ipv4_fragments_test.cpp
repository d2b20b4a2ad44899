#include "wire/ipv4_fragments.hpp"

#include <numeric>

#include "golden.hpp"
#include "wire/checksum.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

using Packet = std::vector<std::uint8_t>;

/// An IPv4 packet with these options, and `payload` bytes that differ.
Packet packet_with(const std::string& options, std::size_t payload, std::uint16_t fragment = 0) {
  Packet packet = from_hex("45 00 0000 1234 0000 40 11 0000 0a2c0001 0a2c0002" + options);
  const std::size_t header = packet.size();
  packet[0] = static_cast<std::uint8_t>(0x40 | header / 4);
  packet.resize(header + payload);
  std::iota(packet.begin() + static_cast<std::ptrdiff_t>(header), packet.end(), std::uint8_t{0});
  store_be(&packet[ipv4::kTotalLength], static_cast<std::uint16_t>(packet.size()));
  store_be(&packet[ipv4::kFragment], fragment);
  return packet;
}

std::vector<Packet> fragments_of(const Packet& packet, std::size_t mtu) {
  std::vector<Packet> fragments;
  for (Ipv4Fragmenter fragmenter(packet, mtu); !fragmenter.done();) {
    Packet one(mtu);
    one.resize(fragmenter.next(one));
    fragments.push_back(one);
  }
  return fragments;
}

std::uint16_t fragment_field(const Packet& packet) {
  return load_be<std::uint16_t>(&packet[ipv4::kFragment]);
}
ConstBytes payload_of(const Packet& packet) {
  return ConstBytes(packet).subspan(Ipv4Header::size_by(packet[0]));
}

TEST(Ipv4Fragments, AreReassembledToThePacket) {
  const Packet packet = packet_with("", 1000);
  const auto fragments = fragments_of(packet, 252);
  ASSERT_EQ(fragments.size(), 5U) << "232 bytes each";
  Packet joined;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const Packet& one = fragments[i];
    const auto header = Ipv4Header::parse(one);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->total_length, one.size());
    EXPECT_LE(one.size(), 252U);
    EXPECT_EQ(internet_checksum(ConstBytes(one).first(header->header_size)), 0);
    EXPECT_EQ(load_be<std::uint16_t>(&one[ipv4::kIdentification]), 0x1234);
    const bool is_last = i + 1 == fragments.size();
    EXPECT_EQ(fragment_field(one), joined.size() / 8 | (is_last ? 0U : 0x2000U));
    const ConstBytes payload = payload_of(one);
    joined.insert(joined.end(), payload.begin(), payload.end());
  }
  EXPECT_TRUE(std::ranges::equal(joined, payload_of(packet)));
}

TEST(Ipv4Fragments, AllButTheLastHaveAMultipleOfEightBytes) {
  const auto fragments = fragments_of(packet_with("", 300), 255);
  ASSERT_EQ(fragments.size(), 2U);
  EXPECT_EQ(payload_of(fragments[0]).size(), 232U);
  EXPECT_EQ(payload_of(fragments[1]).size(), 68U);
}

TEST(Ipv4Fragments, OfAFragmentContinueItsOffset) {
  const auto middle = fragments_of(packet_with("", 80, 0x2000 | 100), 68);
  ASSERT_EQ(middle.size(), 2U);
  EXPECT_EQ(fragment_field(middle[0]), 0x2000 | 100);
  EXPECT_EQ(fragment_field(middle[1]), 0x2000 | 106) << "more fragments follow";
  EXPECT_EQ(fragment_field(fragments_of(packet_with("", 80, 100), 68)[1]), 106);
}

TEST(Ipv4Fragments, CopyOnlyTheOptionsWithTheCopiedFlag) {
  // Record route (7), no operation, loose source route (0x83), end.
  const Packet packet = packet_with("07 07 04 01020304 01 83 07 04 0a2c0009 00", 200);
  const auto fragments = fragments_of(packet, 100);
  ASSERT_EQ(Ipv4Header::size_by(packet[0]), 36);
  EXPECT_TRUE(std::ranges::equal(ConstBytes(fragments[0]).subspan(20, 16),
                                 ConstBytes(packet).subspan(20, 16)));
  for (std::size_t i = 1; i < fragments.size(); ++i) {
    ASSERT_EQ(fragments[i][0], 0x47);
    const auto expected = from_hex("83 07 04 0a2c0009 00");
    EXPECT_TRUE(std::ranges::equal(ConstBytes(fragments[i]).subspan(20, 8), expected));
    EXPECT_EQ(internet_checksum(ConstBytes(fragments[i]).first(28)), 0);
  }
}

TEST(Ipv4Fragments, MalformedOptionsEndTheCopy) {
  for (const char* const options : {"83 00 0000", "83 09 0000", "01 01 01 83", "83 01 0000"}) {
    const auto fragments = fragments_of(packet_with(options, 200), 100);
    EXPECT_EQ(fragments[1][0], 0x45) << options;
  }
}

TEST(Ipv4Fragments, AreMadeOnlyOfIpv4WithoutDf) {
  EXPECT_TRUE(may_fragment(packet_with("", 100)));
  EXPECT_TRUE(may_fragment(packet_with("", 100, 0x2000)));
  EXPECT_FALSE(may_fragment(packet_with("", 100, 0x4000)));
  EXPECT_FALSE(may_fragment(from_hex("60")));
  EXPECT_FALSE(may_fragment({}));
}

}  // namespace
}  // namespace ipoib::wire
