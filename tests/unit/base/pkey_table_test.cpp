#include "ipoib/pkey_table.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

TEST(FindPartitionTest, ComparesWithoutTheMembershipBit) {
  const std::vector<PKey> table{PKey(0xffff), PKey(0), PKey(0x8012)};
  EXPECT_EQ(find_partition(table, PKey(0x0012)), (PKeyEntry{2, PKey(0x8012)}));
  EXPECT_EQ(find_partition(table, PKey(0x8012)), (PKeyEntry{2, PKey(0x8012)}));
  EXPECT_EQ(find_partition(table, PKey(0x7fff)), (PKeyEntry{0, PKey(0xffff)}));
}

TEST(FindPartitionTest, PrefersTheEntryOfAFullMember) {
  const std::vector<PKey> table{PKey(0x7fff), PKey(0x0012), PKey(0xffff), PKey(0x0012)};
  EXPECT_EQ(find_partition(table, kDefaultPKey), (PKeyEntry{2, PKey(0xffff)}));
  EXPECT_EQ(find_partition(table, PKey(0x8012)), (PKeyEntry{1, PKey(0x0012)}))
      << "the first of two limited members";
}

TEST(FindPartitionTest, IgnoresFreeEntries) {
  const std::vector<PKey> table{PKey(0), PKey(0x8000), PKey(0xffff)};
  EXPECT_EQ(find_partition(table, PKey(0)), std::nullopt);
  EXPECT_EQ(find_partition(table, PKey(0x8000)), std::nullopt);
  EXPECT_EQ(find_partition(table, PKey(0x8012)), std::nullopt);
  EXPECT_EQ(find_partition({}, kDefaultPKey), std::nullopt);
}

TEST(PKeyText, IsDecimalOrHexadecimal) {
  EXPECT_EQ(parse_pkey("18"), PKey(18));
  EXPECT_EQ(parse_pkey("0x8012"), PKey(0x8012));
  EXPECT_EQ(parse_pkey("0Xffff"), PKey(0xffff));
  for (const char* text : {"", "0", "0x8000", "65536", "ffff", "0x", "-1", "18 "}) {
    EXPECT_EQ(parse_pkey(text), std::nullopt) << text;
  }
}

TEST(PKeyText, FourDecimalDigitsAreRemarkedUpon) {
  EXPECT_EQ(remark_on_pkey("8001"), "P_Key 8001 is 0x1f41; 0x8001 needs 0x");
  for (const char* text : {"18", "0x8001", "ffff", "32769", ""}) {
    EXPECT_EQ(remark_on_pkey(text), "") << text;
  }
}

}  // namespace
}  // namespace ipoib
