#include "softib/roce/network_interface.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace softib::roce {
namespace {

// As rdma_rxe: all headers take 80 bytes at most.
TEST(NetworkInterface, TheLargestMtuThatFits) {
  EXPECT_EQ(mtu_code_of(335), 0);
  EXPECT_EQ(mtu_code_of(336), 1);
  EXPECT_EQ(mtu_code_of(1280), 3);
  EXPECT_EQ(mtu_code_of(1500), 3);
  EXPECT_EQ(mtu_code_of(4175), 4);
  EXPECT_EQ(mtu_code_of(4176), 5);
  EXPECT_EQ(mtu_code_of(9000), 5);
}

TEST(NetworkInterface, APortFollowsIt) {
  NetworkInterface interface;
  interface.mtu = 1500;
  interface.has_carrier = true;
  interface.gids = {gid_of_ipv4(0x0a000001)};
  PortAttributes port;
  apply(interface, port);
  EXPECT_TRUE(port.is_ethernet());
  EXPECT_EQ(port.state, PortState::active);
  EXPECT_EQ(port.mtu, 3);
  EXPECT_EQ(port.gid(0), gid_of_ipv4(0x0a000001));
  EXPECT_TRUE(port.gid(1).is_zero());
  EXPECT_TRUE(port.has(gid_of_ipv4(0x0a000001)));
  EXPECT_FALSE(port.has(Gid()));
  interface.has_carrier = false;
  apply(interface, port);
  EXPECT_EQ(port.state, PortState::down);
  EXPECT_EQ(port.losses, 1);
}

TEST(NetworkInterface, WithAnMtuBelowTheSmallestThePortIsDown) {
  NetworkInterface interface;
  interface.mtu = 300;
  interface.has_carrier = true;
  PortAttributes port;
  apply(interface, port);
  EXPECT_EQ(port.state, PortState::down);
}

TEST(NetworkInterface, NamesThoseThatThereAre) {
  const auto none = read_interface("no-such-one");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENODEV);
  EXPECT_NE(none.error().message.find("no network interface 'no-such-one'"), std::string::npos);
  const auto address = read_interface("192.0.2.77");
  ASSERT_FALSE(address);
  EXPECT_NE(address.error().message.find("has the address 192.0.2.77"), std::string::npos);
}

}  // namespace
}  // namespace softib::roce
