#include "wire/icmp_error.hpp"

#include "golden.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {
namespace {

std::vector<std::uint8_t> ipv4_packet(std::size_t size, std::uint8_t protocol = 17) {
  auto packet = from_hex("45 00 0000 0000 4000 40 00 0000 0a2c0001 0a2c0002 08");
  packet.resize(size, 0x5a);
  store_be(&packet[2], static_cast<std::uint16_t>(size));
  packet[9] = protocol;
  return packet;
}

std::vector<std::uint8_t> ipv6_packet(std::size_t size, std::uint8_t next_header = 17) {
  std::vector<std::uint8_t> packet(size, 0x5a);
  Ipv6Header{.source = *Ipv6Address::parse("fd00::1"),
             .destination = *Ipv6Address::parse("fd00::2"),
             .traffic_class = 0,
             .flow_label = 0,
             .payload_length = static_cast<std::uint16_t>(size - 40),
             .next_header = next_header,
             .hop_limit = 64}
      .emit(packet);
  return packet;
}

std::vector<std::uint8_t> error_for(ConstBytes packet, std::uint32_t mtu) {
  std::vector<std::uint8_t> out(kMaxIcmpError);
  out.resize(emit_too_big(packet, mtu, out));
  return out;
}

std::vector<std::uint8_t> unreachable_for(ConstBytes packet) {
  std::vector<std::uint8_t> out(kMaxIcmpError);
  out.resize(emit_unreachable(packet, out));
  return out;
}

TEST(IcmpError, HostUnreachableQuotesThePacket) {
  const auto packet = ipv4_packet(100);
  const auto error = unreachable_for(packet);
  const auto header = Ipv4Header::parse(error);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, Ipv4Address(0x0a2c0002));
  EXPECT_EQ(header->destination, Ipv4Address(0x0a2c0001));
  EXPECT_EQ(load_be<std::uint16_t>(&error[20]), 0x0301);
  EXPECT_EQ(internet_checksum(ConstBytes(error).subspan(20)), 0);
  EXPECT_EQ(load_be<std::uint32_t>(&error[24]), 0U) << "unused";
  EXPECT_TRUE(std::ranges::equal(ConstBytes(error).subspan(28), packet));
}

TEST(IcmpError, AddressUnreachableQuotesThePacket) {
  const auto packet = ipv6_packet(100);
  const auto error = unreachable_for(packet);
  const auto header = Ipv6Header::parse(error);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination, *Ipv6Address::parse("fd00::1"));
  EXPECT_EQ(load_be<std::uint16_t>(&error[40]), 0x0103);
  EXPECT_EQ(load_be<std::uint32_t>(&error[44]), 0U) << "unused";
  EXPECT_TRUE(std::ranges::equal(ConstBytes(error).subspan(48), packet));
}

TEST(IcmpError, NoRouteHasItsOwnCodes) {
  std::vector<std::uint8_t> out(kMaxIcmpError);
  ASSERT_GT(emit_no_route(ipv4_packet(100), out), 0U);
  EXPECT_EQ(load_be<std::uint16_t>(&out[20]), 0x0300) << "network unreachable";
  ASSERT_GT(emit_no_route(ipv6_packet(100), out), 0U);
  EXPECT_EQ(load_be<std::uint16_t>(&out[40]), 0x0100) << "no route to destination";
}

TEST(IcmpError, FragmentationNeededContainsTheMtu) {
  const auto packet = ipv4_packet(2044);
  const auto error = error_for(packet, 1500);
  const auto header = Ipv4Header::parse(error);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, Ipv4Address(0x0a2c0002));
  EXPECT_EQ(header->destination, Ipv4Address(0x0a2c0001));
  EXPECT_EQ(header->protocol, 1);
  EXPECT_EQ(error.size(), 576U);
  EXPECT_EQ(internet_checksum(ConstBytes(error).first(20)), 0);
  EXPECT_EQ(internet_checksum(ConstBytes(error).subspan(20)), 0);
  EXPECT_EQ(error[20], 3);
  EXPECT_EQ(error[21], 4);
  EXPECT_EQ(load_be<std::uint16_t>(&error[26]), 1500);
  EXPECT_TRUE(std::equal(error.begin() + 28, error.end(), packet.begin()));
}

TEST(IcmpError, PacketTooBigContainsTheMtu) {
  const auto packet = ipv6_packet(2044);
  const auto error = error_for(packet, 1500);
  const auto header = Ipv6Header::parse(error);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, *Ipv6Address::parse("fd00::2"));
  EXPECT_EQ(header->destination, *Ipv6Address::parse("fd00::1"));
  EXPECT_EQ(header->next_header, 58);
  EXPECT_EQ(error.size(), kMaxIcmpError);
  const auto message = ConstBytes(error).subspan(40);
  EXPECT_EQ(InternetChecksum()
                .add_pseudo_header(header->source, header->destination, 58,
                                   static_cast<std::uint32_t>(message.size()))
                .add(message)
                .value(),
            0);
  EXPECT_EQ(error[40], 2);
  EXPECT_EQ(error[41], 0);
  EXPECT_EQ(load_be<std::uint32_t>(&error[44]), 1500U);
  EXPECT_TRUE(std::equal(error.begin() + 48, error.end(), packet.begin()));
}

TEST(IcmpError, QuotesAShortPacketCompletely) {
  EXPECT_EQ(error_for(ipv4_packet(100), 68).size(), 128U);
  EXPECT_EQ(error_for(ipv6_packet(100), 68).size(), 148U);
}

TEST(IcmpError, IsNotSentAboutErrors) {
  auto error = ipv4_packet(2044, 1);
  EXPECT_FALSE(error_for(error, 1500).empty()) << "an echo request is not an error";
  error[20] = 3;
  EXPECT_TRUE(error_for(error, 1500).empty());
  auto error6 = ipv6_packet(2044, 58);
  error6[40] = 128;
  EXPECT_FALSE(error_for(error6, 1500).empty()) << "an echo request is not an error";
  error6[40] = 1;
  EXPECT_TRUE(error_for(error6, 1500).empty());
  error6[40] = 137;
  EXPECT_TRUE(error_for(error6, 1500).empty()) << "a redirect (RFC 4443, 2.4)";
}

TEST(IcmpError, IsNotSentToAnythingButASingleHost) {
  for (const std::uint32_t source : {0U, 0x7f000001U, 0xe0000001U, 0xf0000001U, 0xffffffffU}) {
    auto packet = ipv4_packet(100);
    store_be(&packet[12], source);
    EXPECT_TRUE(unreachable_for(packet).empty()) << source;
  }
  auto packet = ipv6_packet(100);
  packet[8] = 0xff;
  EXPECT_TRUE(unreachable_for(packet).empty());
  std::fill_n(packet.begin() + 8, 16, std::uint8_t{0});
  EXPECT_TRUE(unreachable_for(packet).empty()) << "no source address";
}

TEST(IcmpError, IsNotSentAboutLaterFragmentsOrGroups) {
  auto fragment = ipv4_packet(2044);
  fragment[7] = 1;
  EXPECT_TRUE(error_for(fragment, 1500).empty());
  auto multicast = ipv4_packet(2044);
  multicast[16] = 0xe0;
  EXPECT_TRUE(error_for(multicast, 1500).empty());
  auto multicast6 = ipv6_packet(2044);
  multicast6[24] = 0xff;
  EXPECT_TRUE(error_for(multicast6, 1500).empty());
  EXPECT_TRUE(error_for(from_hex("00"), 1500).empty());
}

}  // namespace
}  // namespace ipoib::wire
