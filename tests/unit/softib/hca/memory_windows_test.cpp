// The checks of memory windows (IBA 10.6.7).
#include "hca_fixture.hpp"
#include "softib/hca/memory_table.hpp"

namespace softib::hca {
namespace {

constexpr int kWrite = IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint64_t kBase = 0x1000;

class MemoryWindowsTest : public testing::Test {
 protected:
  [[nodiscard]] std::uint32_t add(ProtectionDomain& in, int access) {
    return table.add(in, memory.data(), memory.size(), kBase, access)->key;
  }
  [[nodiscard]] std::uint32_t next(std::uint32_t key) const { return ibv_inc_rkey(key); }
  [[nodiscard]] std::uint8_t* find(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                                   int access = kWrite) {
    return table.resolve(key, address, length, user, access).begin();
  }

  MemoryTable table;
  ProtectionDomain pd;
  ProtectionDomain other;
  KeyUser user{&pd, Qpn(0x10)};
  std::array<std::uint8_t, 256> memory{};
  std::uint32_t region = add(pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  std::uint32_t type_1 = *table.add_window(pd, IBV_MW_TYPE_1);
  std::uint32_t type_2 = *table.add_window(pd, IBV_MW_TYPE_2);
  /// A valid binding of a window of type 1, which tests change.
  WindowBinding valid{type_1, next(type_1), region, kBase + 16, 32, kWrite};
  /// A valid binding of a window of type 2, which tests change.
  WindowBinding valid_2{type_2, next(type_2), region, kBase + 16, 32, kWrite};
};

TEST_F(MemoryWindowsTest, GivesAccessToItsPartOfTheRegion) {
  EXPECT_EQ(find(type_1, kBase + 16, 1), nullptr) << "not bound yet";
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_EQ(find(valid.key, kBase + 16, 32), memory.data() + 16);
  EXPECT_EQ(find(valid.key, kBase + 47, 1), memory.data() + 47);
  EXPECT_EQ(find(valid.key, kBase + 15, 2), nullptr);
  EXPECT_EQ(find(valid.key, kBase + 16, 33), nullptr);
  EXPECT_EQ(find(valid.key, kBase + 49, 0), nullptr);
  EXPECT_EQ(find(valid.key, ~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(find(valid.key, kBase + 16, 1, IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(find(type_1, kBase + 16, 1), nullptr) << "the key before the binding";
}

TEST_F(MemoryWindowsTest, ItsKeyIsNoLocalKey) {
  valid.access = kWrite | IBV_ACCESS_LOCAL_WRITE;
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_FALSE(table.resolve({kBase + 16, 1, valid.key}, &pd, true));
  EXPECT_FALSE(table.resolve({kBase + 16, 1, valid.key}, &pd, false));
}

TEST_F(MemoryWindowsTest, AnotherDomainHasNoAccess) {
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_FALSE(table.resolve(valid.key, kBase + 16, 1, {&other, Qpn(0x10)}, kWrite));
}

TEST_F(MemoryWindowsTest, Type1BelongsToEachQueuePairOfTheDomain) {
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_TRUE(table.resolve(valid.key, kBase + 16, 1, {&pd, Qpn(0x11)}, kWrite));
  valid.key = next(valid.key);
  EXPECT_TRUE(table.bind(valid, {&pd, Qpn(0x11)}));
}

TEST_F(MemoryWindowsTest, Type2BelongsToItsQueuePair) {
  ASSERT_TRUE(table.bind(valid_2, user));
  EXPECT_NE(find(valid_2.key, kBase + 16, 32), nullptr);
  EXPECT_FALSE(table.resolve(valid_2.key, kBase + 16, 1, {&pd, Qpn(0x11)}, kWrite));
}

TEST_F(MemoryWindowsTest, Type1CanBeMovedAndUnbound) {
  ASSERT_TRUE(table.bind(valid, user));
  const auto first = valid.key;
  valid.key = next(first);
  valid.address = kBase + 100;
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_EQ(find(first, kBase + 16, 1), nullptr);
  EXPECT_EQ(find(valid.key, kBase + 100, 32), memory.data() + 100);
  EXPECT_EQ(table.find(region)->windows, 1U);
  ASSERT_TRUE(table.bind({type_1, next(valid.key), 0, 0, 0, 0}, user));
  EXPECT_EQ(find(next(valid.key), kBase + 100, 1), nullptr);
  EXPECT_EQ(table.find(region)->windows, 0U);
}

TEST_F(MemoryWindowsTest, Type2MustBeInvalidatedBeforeItIsBoundAgain) {
  ASSERT_TRUE(table.bind(valid_2, user));
  auto again = valid_2;
  again.key = next(valid_2.key);
  EXPECT_FALSE(table.bind(again, user));
  ASSERT_TRUE(table.may_invalidate(valid_2.key, user));
  table.invalidate(valid_2.key);
  EXPECT_EQ(find(valid_2.key, kBase + 16, 1), nullptr);
  EXPECT_FALSE(table.may_invalidate(valid_2.key, user)) << "it is invalid already";
  EXPECT_TRUE(table.bind(again, user));
}

TEST_F(MemoryWindowsTest, OnlyTheQueuePairOfAType2WindowMayInvalidateIt) {
  ASSERT_TRUE(table.bind(valid, user));
  ASSERT_TRUE(table.bind(valid_2, user));
  EXPECT_FALSE(table.may_invalidate(valid.key, user)) << "of type 1";
  EXPECT_FALSE(table.may_invalidate(region, user));
  EXPECT_FALSE(table.may_invalidate(valid_2.key, {&pd, Qpn(0x11)}));
  EXPECT_FALSE(table.may_invalidate(valid_2.key, {&other, Qpn(0x10)}));
  EXPECT_FALSE(table.may_invalidate(next(valid_2.key), user));
  EXPECT_FALSE(table.may_invalidate(0, user));
  EXPECT_TRUE(table.may_invalidate(valid_2.key, user));
}

TEST_F(MemoryWindowsTest, AZeroBasedWindowHasOffsetsAsAddresses) {
  valid_2.access |= IBV_ACCESS_ZERO_BASED;
  ASSERT_TRUE(table.bind(valid_2, user));
  EXPECT_EQ(find(valid_2.key, 0, 32), memory.data() + 16);
  EXPECT_EQ(find(valid_2.key, 1, 32), nullptr);
  EXPECT_EQ(find(valid_2.key, kBase + 16, 1), nullptr);
}

/// Each differs from a valid binding in one thing.
TEST_F(MemoryWindowsTest, ABindingIsChecked) {
  const auto is_refused = [&](WindowBinding from, auto change) {
    change(from);
    return !table.bind(from, user);
  };
  const auto read_only = add(pd, IBV_ACCESS_MW_BIND);
  const auto no_windows = add(pd, IBV_ACCESS_LOCAL_WRITE);
  const auto of_other = add(other, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  const auto zero_based =
      table
          .add(pd, memory.data(), 256, 0,
               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)
          ->key;
  for (const auto& from : {valid, valid_2}) {
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = read_only; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = no_windows; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = of_other; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = zero_based, it.address = 16; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = type_1; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.region = 0; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.address = kBase - 1; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.length = 241; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.length = ~std::uint64_t{0}; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.key = it.window; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.key = region; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.window = it.key = region; }));
    EXPECT_TRUE(is_refused(from, [&](auto& it) { it.window = ~0U; }));
    EXPECT_FALSE(table.bind(from, {&other, Qpn(0x10)}));
  }
  EXPECT_TRUE(is_refused(valid, [&](auto& it) { it.access |= IBV_ACCESS_ZERO_BASED; }));
  EXPECT_TRUE(is_refused(valid_2, [&](auto& it) { it.length = 0; }));
  // "Remote read does not require local write."
  valid.region = read_only;
  valid.access = IBV_ACCESS_REMOTE_READ;
  EXPECT_TRUE(table.bind(valid, user));
  EXPECT_TRUE(table.bind(valid_2, user));
}

TEST_F(MemoryWindowsTest, ARegionWithWindowsStaysAsItIs) {
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_EQ(table.remove(region).error().message,
            "memory windows are bound to the memory region: deallocate or invalidate them before");
  EXPECT_EQ(table.change(region, {nullptr, nullptr, 0, 0}).error().code, EBUSY);
  ASSERT_TRUE(table.remove_window(type_1));
  EXPECT_TRUE(table.change(region, {nullptr, nullptr, 0, 0}));
  EXPECT_TRUE(table.remove(region));
}

TEST_F(MemoryWindowsTest, AWindowThatIsFreedGivesNoAccess) {
  ASSERT_TRUE(table.bind(valid, user));
  EXPECT_EQ(pd.users, 3U);
  ASSERT_TRUE(table.remove_window(type_1)) << "by the key that it had first";
  EXPECT_EQ(pd.users, 2U);
  EXPECT_EQ(find(valid.key, kBase + 16, 1), nullptr);
  EXPECT_EQ(table.remove_window(type_1).error().message, "no memory window has this key");
  EXPECT_EQ(table.remove_window(region).error().code, EINVAL);
  const auto reused = *table.add_window(pd, IBV_MW_TYPE_1);
  EXPECT_NE(reused, valid.key);
  EXPECT_EQ(find(reused, kBase + 16, 1), nullptr);
}

TEST_F(MemoryWindowsTest, TheEndOfAQueuePairInvalidatesItsWindows) {
  ASSERT_TRUE(table.bind(valid, user));
  ASSERT_TRUE(table.bind(valid_2, user));
  table.invalidate_windows_of(Qpn(0x11));
  EXPECT_NE(find(valid_2.key, kBase + 16, 1), nullptr);
  table.invalidate_windows_of(user.qp);
  EXPECT_EQ(find(valid_2.key, kBase + 16, 1), nullptr);
  EXPECT_NE(find(valid.key, kBase + 16, 1), nullptr) << "type 1 belongs to no queue pair";
}

TEST_F(MemoryWindowsTest, HasTwoTypes) {
  EXPECT_EQ(table.add_window(pd, static_cast<ibv_mw_type>(3)).error().code, EINVAL);
  EXPECT_EQ(pd.users, 3U);
}

TEST_F(MemoryWindowsTest, CountTogetherWithRegions) {
  for (std::uint32_t i = 3; i < kMaxMemoryRegions; ++i) {
    ASSERT_TRUE(table.add_window(pd, IBV_MW_TYPE_2));
  }
  EXPECT_EQ(table.add_window(pd, IBV_MW_TYPE_2).error().code, ENOMEM);
}

}  // namespace
}  // namespace softib::hca
