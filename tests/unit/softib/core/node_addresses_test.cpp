#include "softib/core/node_addresses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace softib {
namespace {

IpAddress ip(const char* text) { return ipoib::parse_ip_address(text).value(); }

TEST(NodeAddresses, EachNodeHasOneOfEachFamily) {
  EXPECT_EQ(ipoib::to_string(address_of(2, IpFamily::v4)), "127.77.0.2");
  EXPECT_EQ(ipoib::to_string(address_of(258, IpFamily::v4)), "127.77.1.2");
  EXPECT_EQ(ipoib::to_string(address_of(258, IpFamily::v6)), "fd77::102");
  for (const NodeIndex node : std::initializer_list<NodeIndex>{0, 1, 255, 256, kMaxNodes - 1}) {
    for (const auto family : {IpFamily::v4, IpFamily::v6}) {
      EXPECT_EQ(node_of(address_of(node, family)), node);
    }
  }
  for (const char* other : {"127.78.0.2", "10.77.0.2", "127.77.16.0", "fd77::1:2", "fd78::2"}) {
    EXPECT_FALSE(node_of(ip(other))) << other;
  }
}

TEST(NodeAddresses, AreUnicastAndOfNoReservedRange) {
  for (const char* good : {"10.1.0.1", "127.0.1.1", "127.78.0.1", "1.0.0.0", "223.255.255.255",
                           "fd01::1", "2001:db8::", "fd77::1:0", "::2"}) {
    EXPECT_TRUE(check_address(ip(good))) << good;
  }
  for (const char* bad :
       {"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.0.0.255", "127.77.0.1", "127.77.255.255",
        "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "febf::1", "ff02::1",
        "fd77::", "fd77::ffff", "::ffff:10.1.0.1"}) {
    const auto checked = check_address(ip(bad));
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, EINVAL);
    EXPECT_THAT(checked.error().message, testing::HasSubstr("cannot be an address of a node"));
  }
}

TEST(NodeAddresses, TheSourceIsTheOneClosestToTheDestination) {
  const std::vector<IpAddress> others{ip("10.1.0.1"), ip("10.2.0.1"), ip("fd01::1")};
  const auto source = [&](const char* to) { return to_string(source_address(3, others, ip(to))); };
  EXPECT_EQ(source("127.77.0.9"), "127.77.0.3");
  EXPECT_EQ(source("127.0.0.1"), "127.77.0.3");
  EXPECT_EQ(source("10.2.0.7"), "10.2.0.1");
  EXPECT_EQ(source("10.1.0.1"), "10.1.0.1");
  EXPECT_EQ(source("192.0.2.1"), "127.77.0.3") << "no bit in common";
  EXPECT_EQ(source("fd77::9"), "fd77::3");
  EXPECT_EQ(source("fd01::9"), "fd01::1");
  EXPECT_EQ(to_string(source_address(3, {}, ip("10.1.0.1"))), "127.77.0.3");
}

}  // namespace
}  // namespace softib
