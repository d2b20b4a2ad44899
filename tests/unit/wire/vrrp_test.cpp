#include "wire/vrrp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ipoib/ip.hpp"

namespace ipoib::wire {
namespace {

std::vector<std::uint8_t> ipv4(Ipv4Address to, std::uint8_t ttl = 255,
                               std::uint8_t protocol = 112) {
  std::vector<std::uint8_t> packet(32);
  packet[0] = 0x45;
  packet[3] = 32;
  packet[8] = ttl;
  packet[9] = protocol;
  std::ranges::copy(to.bytes(), packet.begin() + 16);
  return packet;
}

std::vector<std::uint8_t> ipv6(const char* to, std::uint8_t hops = 255, std::uint8_t next = 112) {
  std::vector<std::uint8_t> packet(64);
  packet[0] = 0x60;
  packet[5] = 24;
  packet[6] = next;
  packet[7] = hops;
  std::ranges::copy(Ipv6Address::parse(to)->bytes(), packet.begin() + 24);
  return packet;
}

constexpr Ipv4Address kRouters{0xe0000012};

TEST(Vrrp, AnAdvertisementIsKnownByProtocolGroupAndHopLimit) {
  EXPECT_TRUE(is_vrrp_advertisement(ipv4(kRouters)));
  EXPECT_FALSE(is_vrrp_advertisement(ipv4(Ipv4Address(0xe0000013))));
  EXPECT_FALSE(is_vrrp_advertisement(ipv4(kRouters, 254))) << "a router has forwarded it";
  EXPECT_FALSE(is_vrrp_advertisement(ipv4(kRouters, 255, 17)));
  EXPECT_TRUE(is_vrrp_advertisement(ipv6("ff02::12")));
  EXPECT_FALSE(is_vrrp_advertisement(ipv6("ff02::13")));
  EXPECT_FALSE(is_vrrp_advertisement(ipv6("ff02::12", 254)));
  EXPECT_FALSE(is_vrrp_advertisement(ipv6("ff02::12", 255, 17)));
}

TEST(Vrrp, AShortPacketIsNone) {
  for (const auto& whole : {ipv4(kRouters), ipv6("ff02::12")}) {
    const std::size_t least = whole[0] == 0x45 ? 20 : 40;
    for (std::size_t size = 0; size < least; ++size) {
      EXPECT_FALSE(is_vrrp_advertisement(ConstBytes(whole).first(size)));
    }
  }
}

TEST(Vrrp, VirtualRoutersHaveMacsOfTheirOwn) {
  EXPECT_TRUE(is_virtual_router_mac(MacAddress(0x0000'5e00'0133)));
  EXPECT_TRUE(is_virtual_router_mac(MacAddress(0x0000'5e00'02ff)));
  EXPECT_FALSE(is_virtual_router_mac(MacAddress(0x0000'5e00'0333)));
  EXPECT_FALSE(is_virtual_router_mac(MacAddress(0x0100'5e00'0133)));
}

}  // namespace
}  // namespace ipoib::wire
