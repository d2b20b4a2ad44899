#include "ipoib/address.hpp"

#include <gtest/gtest.h>

#include "ipoib/ip.hpp"
#include "ipoib/ip_prefix.hpp"

namespace ipoib {
namespace {

TEST(PKey, AdmitsWhenOneSideIsFull) {
  EXPECT_TRUE(PKey(0xffff).admits(PKey(0x7fff)));
  EXPECT_TRUE(PKey(0x7fff).admits(PKey(0xffff)));
  EXPECT_FALSE(PKey(0x7fff).admits(PKey(0x7fff)));
  EXPECT_FALSE(PKey(0x8001).admits(PKey(0x8002)));
  EXPECT_FALSE(PKey(0x8000).admits(PKey(0x8000)));
}

TEST(Gid, IsPrefixAndGuid) {
  const Gid gid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001));
  EXPECT_EQ(gid.to_string(), "fe80::2:c903:0:1");
  EXPECT_EQ(gid.prefix(), Gid::kLinkLocalPrefix);
  EXPECT_EQ(gid.guid(), Guid(0x0002c90300000001));
  EXPECT_EQ(Gid::parse("fe80::2:c903:0:1"), gid);
  EXPECT_FALSE(Gid::parse("fe80::2:c903:0:1:"));
}

TEST(HwAddress, TextIsTwentyBytesInHexadecimal) {
  const HwAddress address{0x80, Qpn(0x000401),
                          Gid(Gid::kLinkLocalPrefix, Guid(0x1122334455667788))};
  const std::string text = "80:00:04:01:fe:80:00:00:00:00:00:00:11:22:33:44:55:66:77:88";
  EXPECT_EQ(address.to_string(), text);
  EXPECT_EQ(HwAddress::parse(text), address);
  EXPECT_FALSE(HwAddress::parse(text.substr(1)));
  EXPECT_FALSE(HwAddress::parse("8g" + text.substr(2)));
  EXPECT_FALSE(HwAddress::parse("80-" + text.substr(3)));
}

TEST(IpPrefix, HasABroadcastAddress) {
  const IpPrefix prefix{Ipv4Address(0x0a2c0001), 24};
  EXPECT_TRUE(prefix.contains(Ipv4Address(0x0a2c00fe)));
  EXPECT_FALSE(prefix.contains(Ipv4Address(0x0a2c0101)));
  EXPECT_EQ(prefix.broadcast(), Ipv4Address(0x0a2c00ff));
  EXPECT_EQ((IpPrefix{Ipv4Address(0x0a2c0001), 31}).broadcast(), std::nullopt);
  EXPECT_EQ((IpPrefix{Ipv4Address(), 0}).broadcast(), Ipv4Address(0xffffffff));
  EXPECT_EQ((IpPrefix{Ipv6Address(), 8}).broadcast(), std::nullopt);
  EXPECT_TRUE((IpPrefix{Ipv4Address(), 0}).contains(Ipv4Address(0xffffffff)));
  EXPECT_FALSE((IpPrefix{Ipv4Address(), 0}).contains(Ipv6Address()));
}

}  // namespace
}  // namespace ipoib
