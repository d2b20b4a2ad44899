#include "softib/hca/memory_table.hpp"

#include <set>

#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

class MemoryTableTest : public testing::Test {
 protected:
  [[nodiscard]] MemoryRegion add(int access = IBV_ACCESS_LOCAL_WRITE) {
    return *table.add(pd, memory.data(), memory.size(), 0x1000, access);
  }
  MemoryTable table;
  ProtectionDomain pd;
  ProtectionDomain other;
  std::array<std::uint8_t, 256> memory{};
};

TEST_F(MemoryTableTest, ResolvesAddressesOfTheRegion) {
  const auto region = add();
  EXPECT_EQ(table.resolve({0x1000, 256, region.key}, &pd, true).begin(), memory.data());
  EXPECT_EQ(table.resolve({0x1010, 1, region.key}, &pd, true).begin(), memory.data() + 16);
}

TEST_F(MemoryTableTest, ElementMustLieCompletelyInTheRegion) {
  const auto key = add().key;
  EXPECT_EQ(table.resolve({0xfff, 2, key}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 257, key}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x10ff, 2, key}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({~std::uint64_t{0}, 2, key}, &pd, false).begin(), nullptr);
}

TEST_F(MemoryTableTest, ChecksDomainKeyAndAccess) {
  const auto writable = add();
  const auto readable = add(0);
  EXPECT_EQ(table.resolve({0x1000, 1, writable.key}, &other, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, writable.key + 1}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, 0}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, ~0U}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, readable.key}, &pd, true).begin(), nullptr);
  EXPECT_NE(table.resolve({0x1000, 1, readable.key}, &pd, false).begin(), nullptr);
}

TEST_F(MemoryTableTest, KeyOfARemovedRegionIsInvalid) {
  const auto old = add();
  EXPECT_TRUE(table.remove(old.key));
  EXPECT_EQ(table.remove(old.key).error().code, EINVAL);
  EXPECT_EQ(table.resolve({0x1000, 1, old.key}, &pd, false).begin(), nullptr);
  const auto next = add();
  EXPECT_NE(next.key, old.key);
  EXPECT_EQ(table.resolve({0x1000, 1, old.key}, &pd, false).begin(), nullptr);
  EXPECT_NE(table.resolve({0x1000, 1, next.key}, &pd, false).begin(), nullptr);
  for (std::uint32_t i = 0; i < kLeastFreeSlots; ++i) {
    const auto key = add().key;
    ASSERT_NE(key, old.key) << "also when its slot is used again";
    ASSERT_TRUE(table.remove(key));
  }
}

/// A key has 8 bits that change each time that its slot is used again.
TEST_F(MemoryTableTest, KeysRepeatLate) {
  const auto kept = add();
  std::set<std::uint32_t> keys;
  for (std::uint32_t i = 0; i < 256 * kLeastFreeSlots; ++i) {
    const auto key = add().key;
    ASSERT_TRUE(keys.insert(key).second) << i;
    ASSERT_TRUE(table.remove(key));
  }
  EXPECT_FALSE(keys.contains(kept.key));
}

TEST_F(MemoryTableTest, BadRegionsAreRefused) {
  EXPECT_EQ(table.add(pd, memory.data(), ~std::uint64_t{0}, 0, 0).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 2, ~std::uint64_t{0}, 0).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_REMOTE_WRITE).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_ON_DEMAND).error().code, EINVAL);
  EXPECT_TRUE(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE));
}

TEST_F(MemoryTableTest, ChangesGivenMembersOrNothingOnError) {
  const auto key = add().key;
  EXPECT_EQ(pd.users, 1U);
  std::array<std::uint8_t, 16> new_memory{};
  const auto code = [&](const RegionChange& change) {
    const auto changed = table.change(key, change);
    return changed ? 0 : changed.error().code;
  };
  EXPECT_EQ(code({nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE}), EINVAL);
  EXPECT_EQ(code({nullptr, new_memory.data(), ~std::uint64_t{0}, {}}), EINVAL);
  EXPECT_EQ(code({nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND}), EINVAL) << "there is no such memory";
  EXPECT_EQ(table.change(key + 1, {}).error().code, EINVAL);
  EXPECT_NE(table.resolve({0x1000, 1, key}, &pd, true).begin(), nullptr);

  EXPECT_EQ(code({&other, nullptr, 0, {}}), 0);
  EXPECT_EQ(pd.users, 0U);
  EXPECT_EQ(other.users, 1U);
  EXPECT_EQ(code({nullptr, new_memory.data(), 16, {}}), 0);
  const auto address = std::bit_cast<std::uint64_t>(new_memory.data());
  EXPECT_EQ(table.resolve({address, 16, key}, &other, true).begin(), new_memory.data());
  EXPECT_EQ(table.resolve({address, 16, key}, &pd, true).begin(), nullptr);
  EXPECT_EQ(code({nullptr, nullptr, 0, 0}), 0);
  EXPECT_EQ(table.resolve({address, 16, key}, &other, true).begin(), nullptr);
}

TEST_F(MemoryTableTest, ARegionMayBeEmpty) {
  const auto region = *table.add(pd, memory.data(), 0, 0x1000, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(table.resolve({0x1000, 0, region.key}, &pd, true).begin(), memory.data());
  EXPECT_EQ(table.resolve({0x1000, 1, region.key}, &pd, true).begin(), nullptr);
}

TEST_F(MemoryTableTest, AZeroBasedRegionKeepsItsAddressesWhenItMoves) {
  const auto key = table.add(pd, memory.data(), 256, 0, IBV_ACCESS_ZERO_BASED)->key;
  std::array<std::uint8_t, 16> moved{};
  ASSERT_TRUE(table.change(key, {nullptr, moved.data(), 16, {}}));
  EXPECT_EQ(table.resolve({1, 15, key}, &pd, false).begin(), moved.data() + 1);
  ASSERT_TRUE(table.change(key, {nullptr, nullptr, 0, 0}));
  const auto address = std::bit_cast<std::uint64_t>(moved.data());
  EXPECT_EQ(table.resolve({1, 15, key}, &pd, false).begin(), nullptr);
  EXPECT_EQ(table.resolve({address, 16, key}, &pd, false).begin(), moved.data());
  ASSERT_TRUE(table.change(key, {nullptr, nullptr, 0, IBV_ACCESS_ZERO_BASED}));
  EXPECT_EQ(table.resolve({0, 16, key}, &pd, false).begin(), moved.data());
}

TEST_F(MemoryTableTest, AnAddressThatWasChosenStaysWhenTheAccessChanges) {
  const auto key = add(0).key;
  ASSERT_TRUE(table.change(key, {nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE}));
  EXPECT_EQ(table.resolve({0x1000, 256, key}, &pd, true).begin(), memory.data());
}

TEST_F(MemoryTableTest, AnImplicitRegionHasAllOfMemory) {
  TestMemory on_demand;
  MemoryTable with(&on_demand);
  const auto region = *with.add(pd, nullptr, ~std::uint64_t{0}, 0, IBV_ACCESS_ON_DEMAND);
  const auto address = std::bit_cast<std::uint64_t>(memory.data());
  const auto found = with.resolve({address, 256, region.key}, &pd, false);
  EXPECT_EQ(found.begin(), memory.data());
  EXPECT_TRUE(found.is_on_demand());
}

TEST_F(MemoryTableTest, IsBounded) {
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < kMaxMemoryRegions; ++i) {
    const auto added = table.add(pd, memory.data(), 1, 0, 0);
    ASSERT_TRUE(added);
    last = added->key;
  }
  const auto more = table.add(pd, memory.data(), 1, 0, 0);
  EXPECT_EQ(more.error().code, ENOMEM);
  EXPECT_NE(more.error().message.find("softib run --hca A,B"), std::string::npos);
  ASSERT_TRUE(table.remove(last));
  EXPECT_TRUE(table.add(pd, memory.data(), 1, 0, 0)) << "uses the only slot again";
}

}  // namespace
}  // namespace softib::hca
