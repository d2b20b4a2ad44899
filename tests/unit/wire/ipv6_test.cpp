#include "wire/ipv6.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kIpv6Bytes = from_hex(
    "61b23456 0000 3a ff"
    "fe800000000000000002c90300000001 ff020000000000000000000000000002");

Ipv6Header ipv6_header() {
  return Ipv6Header{.source = *Ipv6Address::parse("fe80::2:c903:0:1"),
                    .destination = *Ipv6Address::parse("ff02::2"),
                    .traffic_class = 0x1b,
                    .flow_label = 0x23456,
                    .payload_length = 0,
                    .next_header = 58,
                    .hop_limit = 255};
}

TEST(Ipv6Header, HasTheLayoutOfRfc8200) {
  expect_golden(ipv6_header(), kIpv6Bytes);
  expect_stable<Ipv6Header>(kIpv6Bytes);
}

/// RFC 4391, 8: the universal bit is set, whether or not the GUID has it.
TEST(LinkLocalAddress, IsThatOfTheEui64) {
  EXPECT_EQ(link_local_address(Guid(0x0002c90300000001)),
            *Ipv6Address::parse("fe80::202:c903:0:1"));
  EXPECT_EQ(link_local_address(Guid(0x0202c90300000001)),
            *Ipv6Address::parse("fe80::202:c903:0:1"));
}

TEST(Ipv6Header, RefusesEveryTruncation) { expect_truncations_refused<Ipv6Header>(kIpv6Bytes); }

TEST(Ipv6Header, RefusesATruncatedPayload) {
  auto packet = kIpv6Bytes;
  packet[5] = 8;
  EXPECT_FALSE(Ipv6Header::parse(packet));
  packet.resize(48);
  EXPECT_TRUE(Ipv6Header::parse(packet));
}

TEST(Ipv6Header, RefusesAnotherVersion) {
  auto packet = kIpv6Bytes;
  packet[0] = 0x41;
  EXPECT_FALSE(Ipv6Header::parse(packet));
}

}  // namespace
}  // namespace ipoib::wire
