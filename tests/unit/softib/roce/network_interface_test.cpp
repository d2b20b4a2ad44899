#include "softib/roce/network_interface.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>

#include "open_descriptors.hpp"
#include "packets.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace softib::roce {
namespace {

Gid ipv6(std::uint64_t prefix, std::uint64_t low) { return {prefix, Guid(low)}; }

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
  interface.index = 7;
  interface.mtu = 1500;
  interface.has_carrier = true;
  interface.gids = {gid_of_ipv4(0x0a000001)};
  PortAttributes port;
  apply(interface, port);
  EXPECT_TRUE(port.is_ethernet());
  EXPECT_EQ(port.state, PortState::active);
  EXPECT_EQ(port.mtu, 3);
  EXPECT_EQ(port.network_interface, 7U);
  EXPECT_EQ(port.gid(0), gid_of_ipv4(0x0a000001));
  EXPECT_TRUE(port.gid(1).is_zero());
  EXPECT_TRUE(port.has(gid_of_ipv4(0x0a000001)));
  EXPECT_FALSE(port.has(Gid()));
  interface.has_carrier = false;
  apply(interface, port);
  EXPECT_EQ(port.state, PortState::down);
  EXPECT_EQ(port.losses, 1);
  interface.has_carrier = true;
  port.failed = true;
  apply(interface, port);
  EXPECT_EQ(port.state, PortState::down);
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

/// An interface in a network namespace of its own, with two IPv4 and two IPv6 addresses.
class InterfaceTest : public ipoib::test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    ip("link add roce0 address 02:00:0a:0b:0c:0d type veth peer name peer0");
    ip("link set roce0 addrgenmode none mtu 4200 up");
    ip("link set peer0 up");
    ip("addr add 10.7.0.1/24 dev roce0");
    ip("addr add 10.7.0.2/24 dev roce0");
    ip("-6 addr add fe80::7/64 dev roce0 nodad");
    ip("-6 addr add fd07::1/64 dev roce0 nodad");
  }
  static NetworkInterface read(const std::string& name = "roce0") {
    auto found = read_interface(name);
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : NetworkInterface{};
  }

  const Gid first_ = gid_of_ipv4(0x0a070001);
  const Gid second_ = gid_of_ipv4(0x0a070002);
  const Gid global_ = ipv6(0xfd07'0000'0000'0000, 1);
  const Gid link_local_ = ipv6(Gid::kLinkLocalPrefix, 7);
};

TEST_F(InterfaceTest, IsReadByItsName) {
  const auto found = read();
  EXPECT_EQ(found.name, "roce0");
  EXPECT_EQ(found.index, ::if_nametoindex("roce0"));
  EXPECT_EQ(found.mtu, 4200U);
  EXPECT_EQ(found.mac, 0x0200'0a0b'0c0dU);
  EXPECT_EQ(found.seed(), found.mac);
  EXPECT_TRUE(found.has_carrier);
  EXPECT_EQ(found.gids, (std::vector{first_, second_, global_, link_local_}));
}

TEST_F(InterfaceTest, ReadByAnAddressItHasNoOther) {
  for (const auto& [text, gid] : {std::pair{"10.7.0.2", second_}, {"fd07::1", global_}}) {
    const auto found = read(text);
    EXPECT_EQ(found.name, "roce0");
    EXPECT_EQ(found.gids, std::vector{gid});
  }
}

TEST_F(InterfaceTest, WithoutAMacItsSeedIsAnAddress) {
  const auto found = read("lo");
  EXPECT_EQ(found.mac, 0U);
  EXPECT_EQ(found.seed(), gid_of_ipv4(0x7f000001).guid().value());
  EXPECT_EQ(NetworkInterface{}.seed(), 0U);
}

/// The kernel says so a while after the change.
TEST_F(InterfaceTest, NeedsACableAndToBeUp) {
  using softib::test::eventually;
  ip("link set peer0 down");
  EXPECT_TRUE(eventually([&] { return !read().has_carrier; }));
  ip("link set peer0 up");
  EXPECT_TRUE(eventually([&] { return read().has_carrier; }));
  ip("link set roce0 down");
  EXPECT_TRUE(eventually([&] { return !read().has_carrier; }));
}

TEST_F(InterfaceTest, AnAddressCountsOnceAndTheFirstOnesFit) {
  ip("addr add 10.7.0.1/16 dev roce0");
  EXPECT_EQ(read().gids.size(), 4U) << "the same address with another prefix";
  for (int i = 3; i < 9; ++i) ip("addr add 10.7.0." + std::to_string(i) + "/24 dev roce0");
  EXPECT_EQ(read().gids.size(), kMaxGids);
  EXPECT_TRUE(std::ranges::all_of(read().gids, is_ipv4));
}

TEST_F(InterfaceTest, TheErrorNamesThoseThatThereAre) {
  const auto none = read_interface("roce1");
  ASSERT_FALSE(none);
  const auto& message = none.error().message;
  for (const auto* const name : {"'roce1'; there are lo, ", ", peer0", ", roce0"}) {
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST_F(InterfaceTest, TheDefaultOneHasTheDefaultRoute) {
  EXPECT_EQ(default_interface(), "");
  ip("route add default via 10.7.0.9");
  EXPECT_EQ(default_interface(), "roce0");
}

TEST(NetworkInterface, SaysWhyChangesCannotBeWatched) {
  const softib::test::DescriptorLimit none(0);
  EXPECT_EQ(watch_interfaces().error().message,
            "cannot watch the network interfaces: Too many open files");
}

TEST_F(InterfaceTest, ChangesOfLinksAndAddressesAreSeen) {
  auto watch = watch_interfaces();
  ASSERT_TRUE(watch) << watch.error().message;
  const auto is_readable = [&] {
    pollfd entry{watch->get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  EXPECT_FALSE(is_readable());
  for (const auto* const change : {"link set roce0 mtu 4300", "addr add 10.8.0.1/24 dev roce0",
                                   "-6 addr add fd08::1/64 dev roce0 nodad"}) {
    ip(change);
    EXPECT_TRUE(ipoib::test::wait_readable(watch->get())) << change;
    drain(*watch);
    EXPECT_FALSE(is_readable()) << change;
  }
}

}  // namespace
}  // namespace softib::roce
