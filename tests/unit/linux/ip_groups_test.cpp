#include "linux/ip_groups.hpp"

#include <net/if.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/linux/namespace_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::linux {
namespace {

class IpGroupsTest : public test::NamespaceTest {
 protected:
  void SetUp() override {
    test::NamespaceTest::SetUp();
    if (IsSkipped()) return;
    ip("link add one type veth peer name two");
    ip("link set one up");
    ip("link set two up");
    groups_.use(if_nametoindex("one"));
  }

  static Gid mgid(std::uint32_t number) {
    return wire::multicast_gid(Ipv4Address(0xef000000 + number), kDefaultPKey);
  }
  /// Returns how many of our groups a device is in, according to the kernel.
  static std::size_t count(const std::string& device) {
    std::ifstream list("/proc/net/igmp6");
    std::size_t found = 0;
    for (std::string line; std::getline(list, line);) {
      found += line.find(device + " ") != line.npos && line.find("ff12401b") != line.npos;
    }
    return found;
  }

  IpGroups groups_;
};

TEST_F(IpGroupsTest, JoinsAGroupUntilItIsLeft) {
  ASSERT_TRUE(groups_.join(mgid(1)));
  ASSERT_TRUE(groups_.join(mgid(1))) << "joining again has no effect";
  EXPECT_EQ(count("one"), 1U);
  groups_.leave(mgid(1));
  groups_.leave(mgid(1));
  EXPECT_EQ(count("one"), 0U);
}

TEST_F(IpGroupsTest, JoinsMoreGroupsThanASocketAllows) {
  constexpr std::uint32_t kMany = 1024;
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(groups_.join(mgid(i))) << i;
  EXPECT_EQ(count("one"), kMany);
  for (std::uint32_t i = 0; i < kMany; ++i) groups_.leave(mgid(i));
  EXPECT_EQ(count("one"), 0U);
}

TEST_F(IpGroupsTest, AreLimited) {
  for (std::uint32_t i = 0; i < IpGroups::kMaxGroups; ++i) ASSERT_TRUE(groups_.join(mgid(i))) << i;
  const auto refused = groups_.join(mgid(IpGroups::kMaxGroups));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOBUFS);
  EXPECT_TRUE(groups_.join(mgid(0))) << "joined already";
  groups_.leave(mgid(0));
  EXPECT_TRUE(groups_.join(mgid(IpGroups::kMaxGroups)));
}

TEST_F(IpGroupsTest, LeftGroupsMakeRoomInTheirSocket) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  ASSERT_TRUE(groups_.join(mgid(0)));
  const auto before = descriptors();
  for (std::uint32_t i = 1; i < 3 * IpGroups::kPerSocket; ++i) {
    ASSERT_TRUE(groups_.join(mgid(i))) << i;
    groups_.leave(mgid(i));
  }
  ASSERT_TRUE(groups_.join(mgid(1)));
  EXPECT_EQ(descriptors(), before);
}

TEST_F(IpGroupsTest, AnotherDeviceStartsWithoutGroups) {
  ASSERT_TRUE(groups_.join(mgid(1)));
  groups_.use(if_nametoindex("two"));
  EXPECT_EQ(count("one"), 0U);
  ASSERT_TRUE(groups_.join(mgid(1)));
  EXPECT_EQ(count("two"), 1U);
}

TEST_F(IpGroupsTest, RefusesADeviceOfAnotherNamespaceAndNamesTheRemedy) {
  groups_.use(4711);
  const auto joined = groups_.join(mgid(1));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ENODEV);
  EXPECT_NE(joined.error().message.find("--netns"), std::string::npos);
}

}  // namespace
}  // namespace ipoib::linux
