#include "softib/hca/memory_table.hpp"

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
  EXPECT_EQ(table.resolve({0x1000, 256, region.key}, &pd, true), memory.data());
  EXPECT_EQ(table.resolve({0x1010, 1, region.key}, &pd, true), memory.data() + 16);
}

TEST_F(MemoryTableTest, ElementMustLieCompletelyInTheRegion) {
  const auto key = add().key;
  EXPECT_EQ(table.resolve({0xfff, 2, key}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 257, key}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({0x10ff, 2, key}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({~std::uint64_t{0}, 2, key}, &pd, false), nullptr);
}

TEST_F(MemoryTableTest, ChecksDomainKeyAndAccess) {
  const auto writable = add();
  const auto readable = add(0);
  EXPECT_EQ(table.resolve({0x1000, 1, writable.key}, &other, false), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, writable.key + 1}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, 0}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, ~0U}, &pd, false), nullptr);
  EXPECT_EQ(table.resolve({0x1000, 1, readable.key}, &pd, true), nullptr);
  EXPECT_NE(table.resolve({0x1000, 1, readable.key}, &pd, false), nullptr);
}

TEST_F(MemoryTableTest, KeyOfARemovedRegionIsInvalid) {
  const auto old = add();
  EXPECT_TRUE(table.remove(old.key));
  EXPECT_FALSE(table.remove(old.key));
  EXPECT_EQ(table.resolve({0x1000, 1, old.key}, &pd, false), nullptr);
  const auto next = add();
  EXPECT_NE(next.key, old.key);
  EXPECT_EQ(table.resolve({0x1000, 1, old.key}, &pd, false), nullptr);
  EXPECT_NE(table.resolve({0x1000, 1, next.key}, &pd, false), nullptr);
}

TEST_F(MemoryTableTest, BadRegionsAreRefused) {
  EXPECT_EQ(table.add(pd, memory.data(), 0, 0, 0).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), ~std::uint64_t{0}, 0, 0).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 2, ~std::uint64_t{0}, 0).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_REMOTE_WRITE).error().code, EINVAL);
  EXPECT_EQ(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_ON_DEMAND).error().code, EINVAL);
  EXPECT_TRUE(table.add(pd, memory.data(), 1, 0, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE));
}

TEST_F(MemoryTableTest, ChangesGivenMembersOrNothingOnError) {
  const auto key = add().key;
  pd.users = 1;
  std::array<std::uint8_t, 16> new_memory{};
  const auto code = [&](const RegionChange& change) {
    const auto changed = table.change(key, change);
    return changed ? 0 : changed.error().code;
  };
  EXPECT_EQ(code({nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE}), EINVAL);
  EXPECT_EQ(code({nullptr, new_memory.data(), 0, {}}), EINVAL);
  EXPECT_EQ(table.change(key + 1, {}).error().code, EINVAL);
  EXPECT_NE(table.resolve({0x1000, 1, key}, &pd, true), nullptr);

  EXPECT_EQ(code({&other, nullptr, 0, {}}), 0);
  EXPECT_EQ(pd.users, 0U);
  EXPECT_EQ(other.users, 1U);
  EXPECT_EQ(code({nullptr, new_memory.data(), 16, {}}), 0);
  const auto address = std::bit_cast<std::uint64_t>(new_memory.data());
  EXPECT_EQ(table.resolve({address, 16, key}, &other, true), new_memory.data());
  EXPECT_EQ(table.resolve({address, 16, key}, &pd, true), nullptr);
  EXPECT_EQ(code({nullptr, nullptr, 0, 0}), 0);
  EXPECT_EQ(table.resolve({address, 16, key}, &other, true), nullptr);
}

TEST_F(MemoryTableTest, IsBounded) {
  for (std::uint32_t i = 0; i < kMaxMemoryRegions; ++i) {
    ASSERT_TRUE(table.add(pd, memory.data(), 1, 0, 0));
  }
  EXPECT_EQ(table.add(pd, memory.data(), 1, 0, 0).error().code, ENOMEM);
}

}  // namespace
}  // namespace softib::hca
