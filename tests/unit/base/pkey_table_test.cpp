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

}  // namespace
}  // namespace ipoib
