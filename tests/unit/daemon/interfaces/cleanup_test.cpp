#include "daemon/interfaces/cleanup.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <memory>

#include "linux/tun_device.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::daemon::cleanup_tests {
namespace {

constexpr Guid kPort{0x0002c90300000001};
constexpr Guid kOther{0x0002c90300000002};
constexpr PKey kRed{0x8001};

TEST(InterfaceMarkTest, RoundTrip) {
  const InterfaceMark mark{"ib0", kPort};
  EXPECT_EQ(to_string(mark), "ipoibd-ib0-0002c90300000001");
  EXPECT_EQ(parse_mark(to_string(mark)), mark);
  const InterfaceMark with_dash{"ib-0-a", Guid(~std::uint64_t{0})};
  EXPECT_EQ(parse_mark(to_string(with_dash)), with_dash);
}

TEST(InterfaceMarkTest, OtherAlternativeNamesAreNone) {
  for (const char* const other : {"", "ib0", "ipoibd-", "ipoibd-ib0", "ipoibd-ib0-0002c9030000000",
                                  "ipoibd--0002c90300000001", "ipoibd-0002c90300000001",
                                  "ipoibd-ib0-0002c9030000000g", "ipoibd-ib0_0002c90300000001",
                                  "ipoibd-ib0- 002c90300000001", "xpoibd-ib0-0002c90300000001"}) {
    EXPECT_EQ(parse_mark(other), std::nullopt) << other;
  }
}

TEST(CleanupTest, RemovesAllInterfacesOfThePort) {
  const Options options;
  EXPECT_TRUE(is_to_be_removed({"ib0", kPort}, options, kPort));
  EXPECT_TRUE(is_to_be_removed({"ib0.8001", kPort}, options, kPort));
  EXPECT_TRUE(is_to_be_removed({"added", kPort}, options, kPort)) << "ibarp interface add";
  EXPECT_FALSE(is_to_be_removed({"ib0", kOther}, options, kPort));
}

TEST(CleanupTest, RemovesOnlyChosenPartitions) {
  Options options;
  options.pkeys = {kDefaultPKey, kRed};
  EXPECT_TRUE(is_to_be_removed({"ib0", kPort}, options, kPort));
  EXPECT_TRUE(is_to_be_removed({"ib0.8001", kPort}, options, kPort));
  EXPECT_FALSE(is_to_be_removed({"ib0.8002", kPort}, options, kPort));
  options.pkeys = {kRed};
  EXPECT_TRUE(is_to_be_removed({"ib0", kPort}, options, kPort)) << "the only one has the base name";
  EXPECT_FALSE(is_to_be_removed({"ib0.8001", kPort}, options, kPort));
  EXPECT_FALSE(is_to_be_removed({"ib0", kOther}, options, kPort));
}

TEST(CleanupTest, WithoutTheDeviceTheNamesDecide) {
  Options options;
  options.interface = "ib1";
  EXPECT_TRUE(is_to_be_removed({"ib1", kPort}, options, std::nullopt));
  EXPECT_TRUE(is_to_be_removed({"ib1.80ff", kOther}, options, std::nullopt));
  for (const char* const other :
       {"ib0", "ib", "ib10", "ib1.80f", "ib1.80fff", "ib1.80fg", "ib1_80ff"})
    EXPECT_FALSE(is_to_be_removed({other, kPort}, options, std::nullopt)) << other;
  options.pkeys = {kRed};
  EXPECT_TRUE(is_to_be_removed({"ib1", kPort}, options, std::nullopt));
  EXPECT_FALSE(is_to_be_removed({"ib1.8001", kPort}, options, std::nullopt));
}

using Discard = test::NamespaceTest;

TEST_F(Discard, RemovesAnInterfaceThatWasMovedWhereItIs) {
  const auto current = [] {
    return linux::NetworkNamespace::open("/proc/thread-self/ns/net").value();
  };
  const auto exists = [] { return ::if_nametoindex("ib0") != 0; };
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(current());
  const std::string mark = to_string(InterfaceMark{"ib0", kPort});
  linux::TunDevice::open({.name = "ib0", .mark = mark}).value()->keep();
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
  linux::TunDevice::open({.name = "ib0", .mark = mark}).value()->keep();
  const auto home = current();
  EXPECT_TRUE(discard({.name = "ib0", .mark = mark, .home = elsewhere}, home));
  EXPECT_FALSE(elsewhere->run(exists));
  EXPECT_TRUE(exists());
  EXPECT_TRUE(discard({.name = "ib0", .mark = mark}, home));
  EXPECT_FALSE(exists());
}

}  // namespace
}  // namespace ipoib::daemon::cleanup_tests
