#include "wire/fragment.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const std::string kIpv4Addresses = "0a2c0001 0a2c0002";
const std::string kIpv6Addresses =
    "fd440000000000000000000000000001 fd440000000000000000000000000002";

std::optional<FragmentedDatagram> ipv4(const std::string& identification,
                                       const std::string& fragment,
                                       const std::string& protocol = "11",
                                       const std::string& addresses = kIpv4Addresses) {
  return datagram_of(from_hex("45 00 001c" + identification + fragment + "40" + protocol + "0000" +
                              addresses + "0001020304050607"));
}

/// A packet with these headers after that of IPv6, of which the first one has this number.
std::optional<FragmentedDatagram> ipv6(const std::string& next, const std::string& headers,
                                       const std::string& addresses = kIpv6Addresses) {
  auto packet = from_hex("60000000 0000" + next + "40" + addresses + headers);
  store_be(&packet[4], static_cast<std::uint16_t>(packet.size() - 40));
  return datagram_of(packet);
}

TEST(Fragment, OfIpv4BelongsToItsDatagram) {
  const auto first = ipv4("1234", "2000");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->source, IpAddress(Ipv4Address(0x0a2c0001)));
  EXPECT_EQ(first->destination, IpAddress(Ipv4Address(0x0a2c0002)));
  EXPECT_EQ(first->identification, 0x1234U);
  EXPECT_EQ(ipv4("1234", "20b9"), first) << "more fragments, at an offset";
  EXPECT_EQ(ipv4("1234", "00b9"), first) << "the last one";
  EXPECT_NE(ipv4("1235", "2000"), first);
  EXPECT_NE(ipv4("1234", "2000", "06"), first) << "RFC 791: another protocol is another datagram";
  EXPECT_NE(ipv4("1234", "2000", "11", "0a2c0003 0a2c0002"), first);
  EXPECT_NE(ipv4("1234", "2000", "11", "0a2c0001 0a2c0003"), first);
}

TEST(Fragment, OfIpv6BelongsToItsDatagram) {
  const auto first = ipv6("2c", "11000001 00012345 0001020304050607");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->identification, 0x12345U);
  EXPECT_EQ(first->source, IpAddress(*Ipv6Address::parse("fd44::1")));
  EXPECT_EQ(first->destination, IpAddress(*Ipv6Address::parse("fd44::2")));
  EXPECT_EQ(ipv6("2c", "110005a9 00012345"), first);
  EXPECT_EQ(ipv6("2c", "110005a8 00012345"), first) << "the last one";
  EXPECT_NE(ipv6("2c", "11000001 00012346"), first);
  EXPECT_EQ(ipv6("00", "2c00010400000000 11000001 00012345"), first) << "after hop-by-hop options";
  EXPECT_EQ(ipv6("3c", "2b01000000000000 0000000000000000 2c00000000000000 11000001 00012345"),
            first)
      << "after destination options and a routing header";
}

TEST(Fragment, WholePacketsAreNone) {
  EXPECT_FALSE(ipv4("1234", "0000"));
  EXPECT_FALSE(ipv4("1234", "4000")) << "DF";
  EXPECT_FALSE(ipv6("11", "0001020304050607"));
  EXPECT_FALSE(ipv6("2c", "11000000 00012345")) << "the only fragment of its datagram";
  EXPECT_FALSE(ipv6("11", "11000001 00012345")) << "not a Fragment header";
}

TEST(Fragment, MalformedPacketsAreNone) {
  EXPECT_FALSE(datagram_of({}));
  EXPECT_FALSE(datagram_of(from_hex("45 00 001c 1234 2000")));
  EXPECT_FALSE(ipv6("2c", "11000001 000123")) << "ends within the header";
  EXPECT_FALSE(ipv6("00", "2c02000000000000 11000001 00012345")) << "longer than the packet";
  EXPECT_FALSE(ipv6("00", "2c"));
}

}  // namespace
}  // namespace ipoib::wire
