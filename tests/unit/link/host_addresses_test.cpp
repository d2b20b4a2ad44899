// The host's addresses, and which are broadcast addresses or can be neighbours.
#include "link/host_addresses.hpp"

#include <gtest/gtest.h>

namespace ipoib::link {
namespace {

TEST(HostAddressesTest, KnowsNewOwnAndBroadcastAddresses) {
  HostView view;
  HostAddresses host;
  const Ipv4Address first(0x0a2c0001);
  const Ipv4Address second(0x0a2d0001);
  EXPECT_TRUE(host.source_for(first).is_unspecified());
  view.addresses = {{first, 24}};
  EXPECT_EQ(host.update(view), (std::vector<IpAddress>{first}));
  EXPECT_TRUE(host.update(view).empty());
  view.addresses = {{first, 24}, {second, 16}, {second, 24}};
  EXPECT_EQ(host.update(view), (std::vector<IpAddress>{second}));
  EXPECT_TRUE(host.is_own(second));
  EXPECT_TRUE(host.is_broadcast(Ipv4Address(0x0a2dffff)));
  EXPECT_FALSE(host.is_broadcast(Ipv4Address(0x0a2cffff)));
  EXPECT_EQ(host.source_for(Ipv4Address(0x0a2d0505)), second) << "in the target's subnet";
  EXPECT_EQ(host.source_for(Ipv4Address(0x01020304)), first) << "no address in the target's subnet";
  EXPECT_FALSE(host.can_be_neighbour(first));
  EXPECT_TRUE(host.can_be_neighbour(Ipv4Address(0x0a2c0002)));
}

TEST(HostAddressesTest, ABroadcastAddressEndsWithItsPrefix) {
  HostView view;
  HostAddresses host;
  view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
  (void)host.update(view);
  ASSERT_TRUE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  view.addresses = {{Ipv4Address(0x0a2c0001), 16}};
  (void)host.update(view);
  EXPECT_FALSE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  EXPECT_TRUE(host.is_broadcast(Ipv4Address(0x0a2cffff)));
}

TEST(HostAddressesTest, AnAddressOfAnotherInterfaceIsLocalAsLongAsItIsThere) {
  const Ipv4Address other(0x0a2d0001);
  HostView view;
  HostAddresses host;
  view.local = {{other, 32}, {Ipv4Address(0x0a2e0000), 24}};
  (void)host.update(view);
  EXPECT_TRUE(host.is_local(other));
  EXPECT_TRUE(host.is_local(Ipv4Address(0x0a2e0007)));
  view.local.clear();
  (void)host.update(view);
  EXPECT_FALSE(host.is_local(other));
  EXPECT_FALSE(host.is_local(Ipv4Address(0x0a2e0007)));
}

}  // namespace
}  // namespace ipoib::link
