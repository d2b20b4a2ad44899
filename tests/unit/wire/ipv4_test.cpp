#include "wire/ipv4.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

// An echo request of 28 bytes.
const auto kPing = from_hex(
    "45 00 001c 0000 4000 40 01 2687 0a2c0001 0a2c0002"
    "08 00 f7ff 0000 0000");

TEST(Ipv4Header, ParsesTheAddresses) {
  const auto header = Ipv4Header::parse(kPing);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, Ipv4Address(0x0a2c0001));
  EXPECT_EQ(header->destination, Ipv4Address(0x0a2c0002));
  EXPECT_EQ(header->header_size, 20);
  EXPECT_EQ(header->total_length, 28);
  EXPECT_EQ(header->protocol, 1);
}

TEST(Ipv4Header, RefusesEveryTruncation) { expect_truncations_refused<Ipv4Header>(kPing); }

TEST(Ipv4Header, AcceptsOptionsAndPadding) {
  auto packet = kPing;
  packet[0] = 0x46;
  packet.resize(40);
  const auto header = Ipv4Header::parse(packet);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->header_size, 24);
}

TEST(Ipv4Header, RefusesLengthsThatDisagree) {
  auto packet = kPing;
  packet[0] = 0x44;  // a header of 16 bytes
  EXPECT_FALSE(Ipv4Header::parse(packet));
  packet[0] = 0x48;  // a header of 32 bytes in a packet of 28
  packet.resize(40);
  EXPECT_FALSE(Ipv4Header::parse(packet));
  packet = kPing;
  packet[0] = 0x65;
  EXPECT_FALSE(Ipv4Header::parse(packet));
}

TEST(IpVersion, IsTheFirstNibble) {
  EXPECT_EQ(ip_version(kPing), 4);
  EXPECT_EQ(ip_version(from_hex("60")), 6);
  EXPECT_EQ(ip_version({}), 0);
}

}  // namespace
}  // namespace ipoib::wire
