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
const Address kSix = IpEndpoint{ipoib::parse_ip_address("fd77::1").value(), 0};
const Address kAny = IpEndpoint{};
const Address kAnySix = IpEndpoint{ipoib::Ipv6Address(), 0};

class PortLocksTest : public ::testing::Test {
 protected:
  enum class Way : std::uint8_t { alone, shared };
  /// 0, or the error. IPv4 is for itself, as in Linux.
  static int lock(PortLocks& locks, const Address& address, std::uint16_t port = 5000,
                  Way way = Way::alone, bool is_family_only = true,
                  PortSpace space = PortSpace::tcp) {
    const auto locked = locks.lock_port(
        {rdma_cm::IdHandle(1), space, address, way == Way::shared, is_family_only}, port);
    return locked ? 0 : locked.error().code;
  }

  test::TestSubnet subnet_;
  PortLocks one_{subnet_.folder(), 1};
  PortLocks other_{subnet_.folder(), 1};
};

TEST_F(PortLocksTest, AnAddressIsLockedOnce) {
  EXPECT_EQ(lock(one_, kOne), 0);
  EXPECT_EQ(lock(one_, kOne), 0) << "it has it already";
  EXPECT_EQ(lock(other_, kOne), EADDRINUSE);
  EXPECT_EQ(lock(other_, kTwo), 0);
  EXPECT_EQ(lock(other_, kOne, 5001), 0);
  EXPECT_EQ(lock(other_, kOne, 5000, Way::alone, true, PortSpace::udp), 0);
  one_.unlock_port(PortSpace::tcp, 5000);
  EXPECT_EQ(lock(other_, kOne), 0);
  PortLocks on_another_node(subnet_.folder(), 2);
  EXPECT_EQ(lock(on_another_node, kOne), 0);
}

TEST_F(PortLocksTest, NothingIsLockedWithoutTheFolder) {
  PortLocks on_no_node(subnet_.folder(), 99);
  EXPECT_EQ(on_no_node.lock_port({rdma_cm::IdHandle(1), PortSpace::tcp, kOne, false, true}, 5000)
                .error()
                .message,
            "the port cannot be locked in the folder of the node: see whether the subnet still "
            "runs (softib list)");
}

TEST_F(PortLocksTest, TheWildcardIsAllAddresses) {
  EXPECT_EQ(lock(one_, kAny), 0);
  EXPECT_EQ(lock(other_, kOne), EADDRNOTAVAIL);
  EXPECT_EQ(lock(other_, kAny), EADDRNOTAVAIL);
  EXPECT_EQ(lock(other_, kOne, 5001), 0);
  EXPECT_EQ(lock(one_, kAny, 5001), EADDRNOTAVAIL);
}

TEST_F(PortLocksTest, SharedAddressesEndWithAListener) {
  for (const auto& address : {kOne, kAny}) {
    EXPECT_EQ(lock(one_, address, 5000, Way::shared), 0);
    EXPECT_EQ(lock(other_, address, 5000, Way::shared), 0);
    EXPECT_NE(lock(one_, address), 0) << "another process has it";
    other_.unlock_port(PortSpace::tcp, 5000);
    EXPECT_EQ(lock(one_, address), 0);
    EXPECT_NE(lock(other_, address, 5000, Way::shared), 0);
    one_.unlock_port(PortSpace::tcp, 5000);
  }
}

TEST_F(PortLocksTest, FamiliesShareAPortIfBothAreForThemselves) {
  EXPECT_EQ(lock(one_, kAny), 0);
  EXPECT_EQ(lock(other_, kAnySix), 0);
  EXPECT_EQ(lock(other_, kSix), 0);
  other_.unlock_port(PortSpace::tcp, 5000);
  EXPECT_EQ(lock(other_, kAnySix, 5000, Way::alone, false), EADDRNOTAVAIL);
  EXPECT_EQ(lock(other_, kSix, 5000, Way::alone, false), EADDRNOTAVAIL);
  one_.unlock_port(PortSpace::tcp, 5000);
  other_.unlock_port(PortSpace::tcp, 5000);
  EXPECT_EQ(lock(other_, kSix, 5000, Way::alone, false), 0);
  EXPECT_EQ(lock(one_, kOne), 0) << "another address";
  EXPECT_EQ(lock(one_, kAny), EADDRNOTAVAIL);
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
