#include "verbs/gid_table.hpp"

#include <gtest/gtest.h>

namespace ipoib::verbs {
namespace {

GidEntry entry(std::uint8_t index, const char* gid, bool is_an_address = true, bool is_v2 = true) {
  return {.index = index,
          .gid = *Gid::parse(gid),
          .is_roce_v2 = is_v2,
          .network_device = 4,
          .is_an_address = is_an_address};
}

std::optional<unsigned> chosen(const std::vector<GidEntry>& table,
                               std::optional<std::uint8_t> wanted = {}) {
  const auto found = choose_gid(table, wanted);
  return found ? std::optional<unsigned>(found->index) : std::nullopt;
}

TEST(ChooseGidTest, PrefersALinkLocalAddress) {
  EXPECT_EQ(chosen({entry(0, "fd44::1"), entry(1, "fe80::1"), entry(2, "fe80::2")}), 1U);
  EXPECT_EQ(chosen({entry(3, "fd44::1"), entry(5, "fd44::2")}), 3U);
}

TEST(ChooseGidTest, PrefersAnAddressOfTheNetworkDevice) {
  EXPECT_EQ(chosen({entry(0, "fe80::1", false), entry(3, "fe80::2")}), 3U);
  EXPECT_EQ(chosen({entry(0, "fe80::1", false), entry(3, "fd44::1")}), 3U);
  EXPECT_EQ(chosen({entry(0, "fe80::1", false)}), 0U) << "better than none";
}

TEST(ChooseGidTest, IgnoresGidsThatMulticastCannotUse) {
  EXPECT_EQ(chosen({entry(0, "fe80::1", true, false), entry(1, "::ffff:10.9.0.1"),
                    entry(2, "ff12:401b:ffff::1"), entry(3, "::")}),
            std::nullopt);
  EXPECT_EQ(chosen({}), std::nullopt);
}

TEST(ChooseGidTest, ReturnsTheWantedEntryOrNone) {
  const std::vector table{entry(0, "fe80::1"), entry(1, "::ffff:10.9.0.1"),
                          entry(2, "fd44::1", false)};
  EXPECT_EQ(chosen(table, std::uint8_t{2}), 2U);
  EXPECT_EQ(chosen(table, std::uint8_t{1}), std::nullopt);
  EXPECT_EQ(chosen(table, std::uint8_t{3}), std::nullopt);
}

}  // namespace
}  // namespace ipoib::verbs
