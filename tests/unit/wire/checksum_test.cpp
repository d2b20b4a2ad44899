#include "wire/checksum.hpp"

#include <algorithm>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

TEST(InternetChecksum, IsThatOfRfc1071) {
  // The example of RFC 1071, 3: the sum is 0xddf2.
  EXPECT_EQ(internet_checksum(from_hex("0001 f203 f4f5 f6f7")), 0xffff ^ 0xddf2);
  EXPECT_EQ(internet_checksum({}), 0xffff);
  EXPECT_EQ(internet_checksum(from_hex("12")), 0xffff ^ 0x1200);
}

TEST(InternetChecksum, IsZeroOverDataWithItsChecksum) {
  const auto ping =
      from_hex("45 00 001c 0000 4000 40 01 2687 0a2c0001 0a2c0002 08 00 f7ff 0000 0000");
  EXPECT_EQ(internet_checksum(ConstBytes(ping).first(20)), 0);
  EXPECT_EQ(internet_checksum(ConstBytes(ping).subspan(20)), 0);
}

TEST(InternetChecksum, KeepsAllCarries) {
  EXPECT_EQ(internet_checksum(std::vector<std::uint8_t>(65536, 0xff)), 0);
}

/// The definition of RFC 1071, 4.1, byte by byte.
std::uint16_t plain_checksum(ConstBytes bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += bytes[i] << (i % 2 == 0 ? 8 : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

TEST(InternetChecksum, IsCorrectForEverySizeAndAlignment) {
  std::vector<std::uint8_t> bytes(2100);
  std::uint32_t state = 1;
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1) >> 24);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; size < 400; ++size) {
      const auto some = ConstBytes(bytes).subspan(begin, size);
      ASSERT_EQ(internet_checksum(some), plain_checksum(some)) << begin << ", " << size;
    }
    const auto rest = ConstBytes(bytes).subspan(begin);
    EXPECT_EQ(internet_checksum(rest), plain_checksum(rest));
  }
  std::ranges::fill(bytes, 0xff);
  EXPECT_EQ(internet_checksum(bytes), plain_checksum(bytes)) << "as many carries as possible";
}

TEST(InternetChecksum, PseudoHeaderOfIpv4) {
  // A datagram sent by Linux: 10.44.0.1:68 to 10.44.0.2:67, "hi".
  const auto udp = from_hex("0044 0043 000a 0000 6869");
  const auto expected =
      internet_checksum(from_hex("0a2c0001 0a2c0002 00 11 000a 0044 0043 000a 6869"));
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
      internet_checksum(from_hex("fe800000000000000000000000000001 ff020000000000000000000000000002"
                                 "00000008 000000 3a 8500 0000 00000000"));
  EXPECT_EQ(InternetChecksum()
                .add_pseudo_header(source, destination, 58, 8)
                .add(from_hex("8500 0000 00000000"))
                .value(),
            expected);
}

}  // namespace
}  // namespace ipoib::wire
