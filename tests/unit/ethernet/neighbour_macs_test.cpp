#include "ethernet/neighbour_macs.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ipoib::ethernet::neighbour_macs_test {
namespace {

constexpr Ipv4Address kPeer{0x0a2c0002};
const Ipv6Address kPeer6 = *Ipv6Address::parse("fd44::2");

HwAddress hardware(std::uint32_t qpn, std::uint64_t guid) {
  return {.flags = 0, .qpn = Qpn(qpn), .gid = Gid(Gid::kLinkLocalPrefix, Guid(guid))};
}

TEST(MacOfInterface, IsLocalAndShowsTheGuid) {
  const Guid port(0x0002'c903'0012'abcd);
  EXPECT_EQ(mac_of_interface(port, kDefaultPKey).to_string(), "02:03:00:12:ab:cd");
  const auto other = mac_of_interface(port, PKey(0x8001));
  EXPECT_NE(other, mac_of_interface(port, kDefaultPKey));
  EXPECT_NE(other, mac_of_interface(port, PKey(0x8002)));
  EXPECT_EQ(other, mac_of_interface(port, PKey(0x0001))) << "limited members are in the partition";
  EXPECT_EQ(other.bytes()[0], 0x02);
}

class NeighbourMacsTest : public ::testing::Test {
 protected:
  NeighbourMacs macs{64, {1, 2}};
};

TEST_F(NeighbourMacsTest, FollowsFromTheHardwareAddress) {
  EXPECT_FALSE(macs.learn(kPeer, hardware(0x22, 2)));
  ASSERT_NE(macs.find(kPeer), nullptr);
  const MacAddress mac = macs.find(kPeer)->mac;
  EXPECT_TRUE(NeighbourMacs::may_be_of_link(mac));
  EXPECT_FALSE(mac.is_multicast());
  EXPECT_EQ(mac, NeighbourMacs(64, {3, 4}).mac_of(hardware(0x22, 2))) << "in each daemon";
  HwAddress with_flags = hardware(0x22, 2);
  with_flags.flags = 0x80;
  EXPECT_EQ(macs.mac_of(with_flags), mac);
}

TEST_F(NeighbourMacsTest, DiffersByQueuePairAndGid) {
  std::set<MacAddress> all;
  for (std::uint32_t qpn = 2; qpn < 34; ++qpn) {
    for (std::uint64_t guid = 1; guid <= 32; ++guid) all.insert(macs.mac_of(hardware(qpn, guid)));
  }
  EXPECT_EQ(all.size(), 32U * 32U);
}

TEST_F(NeighbourMacsTest, LeadsBackToAnAddress) {
  macs.learn(kPeer, hardware(0x22, 2));
  const MacAddress mac = macs.find(kPeer)->mac;
  ASSERT_NE(macs.address_of(mac), nullptr);
  EXPECT_EQ(*macs.address_of(mac), IpAddress(kPeer));
  macs.learn(kPeer6, hardware(0x22, 2));
  EXPECT_EQ(macs.find(kPeer6)->mac, mac) << "one neighbour";
  EXPECT_EQ(*macs.address_of(mac), IpAddress(kPeer6)) << "the last one";
  EXPECT_EQ(macs.address_of(macs.mac_of(hardware(0x23, 2))), nullptr);
}

TEST_F(NeighbourMacsTest, AnAddressThatMovesLeavesNothingBehind) {
  macs.learn(kPeer, hardware(0x22, 2));
  const MacAddress before = macs.find(kPeer)->mac;
  macs.find(kPeer)->is_router = true;
  EXPECT_FALSE(macs.learn(kPeer, hardware(0x22, 2)));
  EXPECT_TRUE(macs.learn(kPeer, hardware(0x33, 3)));
  EXPECT_NE(macs.find(kPeer)->mac, before);
  EXPECT_TRUE(macs.find(kPeer)->is_router);
  EXPECT_EQ(macs.address_of(before), nullptr);
}

TEST_F(NeighbourMacsTest, AnotherAddressOfTheOldNeighbourStays) {
  macs.learn(kPeer, hardware(0x22, 2));
  macs.learn(kPeer6, hardware(0x22, 2));
  const MacAddress before = macs.find(kPeer)->mac;
  EXPECT_TRUE(macs.learn(kPeer, hardware(0x33, 3)));
  ASSERT_NE(macs.address_of(before), nullptr);
  EXPECT_EQ(*macs.address_of(before), IpAddress(kPeer6));
}

/// Two addresses with equal 40 bits were found by trying.
TEST_F(NeighbourMacsTest, CollisionsAreResolved) {
  const HwAddress one = hardware(0x22, 1105708);
  const HwAddress two = hardware(0x22, 1435000);
  ASSERT_EQ(macs.mac_of(one), macs.mac_of(two)) << "alone, each would get this one";
  macs.learn(kPeer, one);
  macs.learn(kPeer6, two);
  EXPECT_NE(macs.find(kPeer)->mac, macs.find(kPeer6)->mac);
  EXPECT_EQ(macs.mac_of(one), macs.find(kPeer)->mac);
  EXPECT_EQ(macs.mac_of(two), macs.find(kPeer6)->mac);
  EXPECT_EQ(*macs.address_of(macs.find(kPeer6)->mac), IpAddress(kPeer6));
}

TEST_F(NeighbourMacsTest, IsLimited) {
  for (std::uint32_t i = 0; i < 1000; ++i) macs.learn(Ipv4Address(i), hardware(i + 2, i));
  EXPECT_EQ(macs.find(Ipv4Address(0)), nullptr);
  EXPECT_NE(macs.find(Ipv4Address(999)), nullptr);
}

}  // namespace
}  // namespace ipoib::ethernet::neighbour_macs_test
