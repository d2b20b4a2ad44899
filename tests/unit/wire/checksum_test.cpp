#include "wire/checksum.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

TEST(InternetChecksum, IsThatOfRfc1071) {
  // The numbers of RFC 1071, 3: the sum is 0xddf2.
  EXPECT_EQ(internet_checksum(octets("0001 f203 f4f5 f6f7")), 0xffff ^ 0xddf2);
  EXPECT_EQ(internet_checksum({}), 0xffff);
  EXPECT_EQ(internet_checksum(octets("12")), 0xffff ^ 0x1200);
}

TEST(InternetChecksum, OfOctetsThatContainItIsZero) {
  const auto ping =
      octets("45 00 001c 0000 4000 40 01 2687 0a2c0001 0a2c0002 08 00 f7ff 0000 0000");
  EXPECT_EQ(internet_checksum(ConstBytes(ping).first(20)), 0);
  EXPECT_EQ(internet_checksum(ConstBytes(ping).subspan(20)), 0);
}

TEST(InternetChecksum, KeepsAllCarries) {
  EXPECT_EQ(internet_checksum(std::vector<std::uint8_t>(65536, 0xff)), 0);
}

TEST(InternetChecksum, PseudoHeaderOfIpv4) {
  // A datagram of Linux's own: 10.44.0.1:68 to 10.44.0.2:67, "hi".
  const auto udp = octets("0044 0043 000a 0000 6869");
  const auto expected =
      internet_checksum(octets("0a2c0001 0a2c0002 00 11 000a 0044 0043 000a 6869"));
  EXPECT_EQ(InternetChecksum()
                .add_pseudo_header(Ipv4Address(0x0a2c0001), Ipv4Address(0x0a2c0002), 17, 10)
                .add(udp)
                .value(),
            expected);
}

TEST(InternetChecksum, PseudoHeaderOfIpv6) {
  const auto source = *Ipv6Address::parse("fe80::1");
  const auto destination = *Ipv6Address::parse("ff02::2");
  const auto expected =
      internet_checksum(octets("fe800000000000000000000000000001 ff020000000000000000000000000002"
                               "00000008 000000 3a 8500 0000 00000000"));
  EXPECT_EQ(InternetChecksum()
                .add_pseudo_header(source, destination, 58, 8)
                .add(octets("8500 0000 00000000"))
                .value(),
            expected);
}

}  // namespace
}  // namespace ipoib::wire
