// Two processes of a node, each with its own open files.
#include "softib/ucma/port_locks.hpp"

#include <gtest/gtest.h>

#include "softib/fabric/cm_locks.hpp"
#include "test_subnet.hpp"

namespace softib::ucma {
namespace {

using rdma_cm::Address;
using rdma_cm::IpEndpoint;
using rdma_cm::PortSpace;

const Address kOne = IpEndpoint{ipoib::Ipv4Address(0x7f4d0001), 0};
const Address kTwo = IpEndpoint{ipoib::Ipv4Address(0x7f4d0002), 0};
const Address kAny = IpEndpoint{};

class PortLocksTest : public ::testing::Test {
 protected:
  test::TestSubnet subnet_;
  PortLocks one_{subnet_.folder(), 1};
  PortLocks other_{subnet_.folder(), 1};
};

TEST_F(PortLocksTest, AnAddressIsLockedOnce) {
  EXPECT_TRUE(one_.lock_port(PortSpace::tcp, 5000, kOne));
  EXPECT_TRUE(one_.lock_port(PortSpace::tcp, 5000, kOne)) << "it has it already";
  EXPECT_FALSE(other_.lock_port(PortSpace::tcp, 5000, kOne));
  EXPECT_TRUE(other_.lock_port(PortSpace::tcp, 5000, kTwo));
  EXPECT_TRUE(other_.lock_port(PortSpace::tcp, 5001, kOne));
  EXPECT_TRUE(other_.lock_port(PortSpace::udp, 5000, kOne));
  one_.unlock_port(PortSpace::tcp, 5000);
  EXPECT_TRUE(other_.lock_port(PortSpace::tcp, 5000, kOne));
  PortLocks on_another_node(subnet_.folder(), 2);
  EXPECT_TRUE(on_another_node.lock_port(PortSpace::tcp, 5000, kOne));
}

TEST_F(PortLocksTest, TheWildcardIsAllAddresses) {
  EXPECT_TRUE(one_.lock_port(PortSpace::tcp, 5000, kAny));
  EXPECT_FALSE(other_.lock_port(PortSpace::tcp, 5000, kOne));
  EXPECT_TRUE(other_.lock_port(PortSpace::tcp, 5001, kOne));
  EXPECT_FALSE(one_.lock_port(PortSpace::tcp, 5001, kAny));
}

TEST_F(PortLocksTest, ServicesAreAnnounced) {
  constexpr ipoib::wire::ServiceId kService{0x0106'1234};
  EXPECT_TRUE(one_.announce(kService));
  EXPECT_TRUE(other_.announce(kService)) << "at another address";
  one_.withdraw(kService);
  EXPECT_TRUE(fabric::has_listener(subnet_.folder(), 1, kService));
  other_.withdraw(kService);
  EXPECT_FALSE(fabric::has_listener(subnet_.folder(), 1, kService));
}

TEST_F(PortLocksTest, TheLastProcessReleasesAGroup) {
  const Gid mgid(0xff12'4001'ffff'0000, Guid(7));
  EXPECT_TRUE(one_.hold_group(mgid, 1));
  EXPECT_TRUE(other_.hold_group(mgid, 1));
  EXPECT_TRUE(other_.hold_group(mgid, 8)) << "send-only";
  EXPECT_FALSE(one_.release_group(mgid, 1));
  EXPECT_TRUE(other_.release_group(mgid, 1));
  EXPECT_TRUE(other_.release_group(mgid, 8));
}

}  // namespace
}  // namespace softib::ucma
