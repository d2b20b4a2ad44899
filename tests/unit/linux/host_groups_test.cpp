#include "linux/host_groups.hpp"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include <filesystem>

#include "tests/support/own_mounts.hpp"

namespace ipoib::linux {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kIgmp =
    "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    "1\tlo        :     1      V3\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "7\tib0       :     2      V3\n"
    "\t\t\t\tFB0000E0     1 0:00000000\t\t0\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "8\tib0.8001  :     1      V3\n"
    "\t\t\t\t020000E0     1 0:00000000\t\t0\n"
    "9\tibp65s0.8001:     1      V3\n"
    "\t\t\t\t050000E0     1 0:00000000\t\t0\n";
constexpr std::string_view kIgmp6 =
    "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    "7    ib0             ff0200000000000000000001ff000002     1 00000004 0\n"
    "7    ib0             ff010000000000000000000000000001     1 00000008 0\n"
    "8    ib0.8001        ff0200000000000000000001ff000003     1 00000004 0\n";

IpAddress ip(std::string_view text) { return *parse_ip_address(text); }

TEST(HostGroups, OfIpv4AreParsedForTheInterface) {
  EXPECT_THAT(groups_in_igmp(kIgmp, "ib0"), ElementsAre(ip("224.0.0.251"), ip("224.0.0.1")));
  EXPECT_THAT(groups_in_igmp(kIgmp, "ib0.8001"), ElementsAre(ip("224.0.0.2")));
  EXPECT_THAT(groups_in_igmp(kIgmp, "ibp65s0.8001"), ElementsAre(ip("224.0.0.5")));
  EXPECT_THAT(groups_in_igmp(kIgmp, "ib1"), IsEmpty());
}

TEST(HostGroups, OfIpv6LeaveOutInterfaceLocalGroups) {
  EXPECT_THAT(groups_in_igmp6(kIgmp6, "ib0"), ElementsAre(ip("ff02::1:ff00:2")));
  EXPECT_THAT(groups_in_igmp6(kIgmp6, "ib1"), IsEmpty());
}

TEST(HostGroups, InvalidAddressesAreSkipped) {
  EXPECT_THAT(groups_in_igmp("7\tib0 : 1\n\t\t\t\tNOHEX 1\n", "ib0"), IsEmpty());
  EXPECT_THAT(groups_in_igmp6("7 ib0 ff02 1\n7 ib0\n\n", "ib0"), IsEmpty());
}

TEST(HostGroups, AreReadAgainEachTime) {
  const auto groups = HostGroups::open();
  ASSERT_TRUE(groups);
  const auto first = groups->read("lo");
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, *groups->read("lo"));
}

/// Below another /proc, whose file is a folder.
TEST(HostGroups, SaysWhyTheyCannotBeRead) {
  const bool has_mounts = test::with_own_mounts([] {
    ASSERT_EQ(::mount("none", "/proc", "tmpfs", 0, nullptr), 0);
    EXPECT_EQ(HostGroups::open().error().message,
              "cannot open /proc/net/igmp: No such file or directory; mount /proc, or use a kernel "
              "with CONFIG_IP_MULTICAST");
    std::filesystem::create_directories("/proc/thread-self/net/igmp");
    EXPECT_EQ(HostGroups::open()->read("lo").error().message,
              "cannot read the host's groups: Is a directory");
  });
  if (!has_mounts) GTEST_SKIP() << "needs root, to mount";
}

}  // namespace
}  // namespace ipoib::linux
