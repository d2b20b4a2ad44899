#include "wire/mgid.hpp"

#include <gtest/gtest.h>

namespace ipoib::wire {
namespace {

TEST(Mgid, BroadcastGroupIsThatOfRfc4391) {
  EXPECT_EQ(broadcast_gid(PKey(0xffff)), *Gid::parse("ff12:401b:ffff::ffff:ffff"));
  EXPECT_EQ(broadcast_gid(PKey(0x8012)), *Gid::parse("ff12:401b:8012::ffff:ffff"));
  EXPECT_EQ(broadcast_gid(PKey(0x8012), 5), *Gid::parse("ff15:401b:8012::ffff:ffff"));
}

TEST(Mgid, AlwaysHasTheFullMemberBit) {
  EXPECT_EQ(broadcast_gid(PKey(0x0012)), broadcast_gid(PKey(0x8012)));
}

TEST(Mgid, Ipv4GroupKeepsItsLow28Bits) {
  EXPECT_EQ(multicast_gid(*Ipv4Address::parse("224.0.0.1"), PKey(0xffff)),
            *Gid::parse("ff12:401b:ffff::1"));
  EXPECT_EQ(multicast_gid(*Ipv4Address::parse("239.255.1.2"), PKey(0x8000 | 1)),
            *Gid::parse("ff12:401b:8001::0fff:102"));
}

TEST(Mgid, Ipv6GroupKeepsItsLow80Bits) {
  EXPECT_EQ(multicast_gid(*Ipv6Address::parse("ff02::1"), PKey(0x8012)),
            *Gid::parse("ff12:601b:8012::1"));
  EXPECT_EQ(multicast_gid(*Ipv6Address::parse("ff0e:1:2:3:4:5:6:7"), PKey(0x8012), 0xe),
            *Gid::parse("ff1e:601b:8012:3:4:5:6:7"));
}

TEST(Mgid, ReturnsTheIpv4Group) {
  for (const char* text : {"224.0.0.1", "239.255.1.2", "255.255.255.255"}) {
    const Ipv4Address group = *Ipv4Address::parse(text);
    const Gid mgid = group.is_limited_broadcast() ? broadcast_gid(PKey(0x8012), 5)
                                                  : multicast_gid(group, PKey(0x8012), 5);
    EXPECT_EQ(ipv4_group(mgid), group);
  }
  for (const char* text : {"ff12:601b:ffff::1", "ff12:a01b:ffff::1", "ff12:401b:ffff::1000:0",
                           "ff12:401b:ffff:1::1", "ff12:401b:ffff::1:0:1"}) {
    EXPECT_FALSE(ipv4_group(*Gid::parse(text))) << text;
  }
}

TEST(Mgid, SolicitedNodeGroupsAreDetermined) {
  const Ipv6Address group = *Ipv6Address::parse("ff02::1:ff12:3456");
  EXPECT_EQ(solicited_node_group(multicast_gid(group, PKey(0x8012), 5)), group);
  for (const char* text : {"ff12:601b:ffff::1", "ff12:401b:ffff::1:ff12:3456",
                           "ff12:601b:ffff:1::1:ff12:3456", "ff12:601b:ffff::1:fe12:3456"}) {
    EXPECT_FALSE(solicited_node_group(*Gid::parse(text))) << text;
  }
}

TEST(Mgid, SignatureIdentifiesIpoib) {
  EXPECT_TRUE(is_ipoib_mgid(broadcast_gid(kDefaultPKey)));
  EXPECT_TRUE(is_ipoib_mgid(*Gid::parse("ff15:601b:8012::1")));
  EXPECT_FALSE(is_ipoib_mgid(*Gid::parse("ff02:401b:ffff::1")));
  EXPECT_FALSE(is_ipoib_mgid(*Gid::parse("ff12:a01b:ffff::1")));
  EXPECT_FALSE(is_ipoib_mgid(*Gid::parse("fe12:401b:ffff::1")));
  EXPECT_TRUE(is_ipv6_mgid(*Gid::parse("ff15:601b:8012::1")));
  EXPECT_FALSE(is_ipv6_mgid(broadcast_gid(kDefaultPKey)));
}

}  // namespace
}  // namespace ipoib::wire
