#include "softib/transport/linger.hpp"

#include <gtest/gtest.h>

namespace softib::transport {
namespace {

class LingerTest : public testing::Test {
 protected:
  /// The engine has handled `bytes`, and `more` come while it lingers. Returns whether it did.
  bool lingers(std::size_t bytes, std::size_t more = 0) {
    bool has_looked = false;
    linger.handled(bytes);
    const bool have_come = linger.linger([&] {
      has_looked = true;
      return more;
    });
    EXPECT_EQ(have_come, has_looked && more != 0);
    return has_looked;
  }
  /// How often it does not before it does. Nothing comes then.
  std::uint32_t left_out() {
    std::uint32_t count = 0;
    while (!lingers(Linger::kBytes)) ++count;
    return count;
  }

  Linger linger;
};

TEST_F(LingerTest, OnlyAfterMuchData) {
  EXPECT_FALSE(lingers(0));
  EXPECT_FALSE(lingers(Linger::kBytes - 1));
  EXPECT_TRUE(lingers(Linger::kBytes));
}

TEST_F(LingerTest, GoesOnWhileMuchDataComes) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(lingers(i == 0 ? Linger::kBytes : 0, Linger::kBytes));
  EXPECT_TRUE(lingers(0, 1));
  EXPECT_FALSE(lingers(0));
}

TEST_F(LingerTest, LeavesOutMoreAndMoreIfNothingComes) {
  for (const std::uint32_t expected : {0U, 1U, 3U, 7U}) EXPECT_EQ(left_out(), expected);
  for (int i = 0; i < 20; ++i) (void)left_out();
  EXPECT_EQ(left_out(), Linger::kMostLeftOut);
  for (std::uint32_t i = 0; i < Linger::kMostLeftOut; ++i) EXPECT_FALSE(lingers(Linger::kBytes, 1));
  EXPECT_TRUE(lingers(Linger::kBytes, 1));
  EXPECT_TRUE(lingers(Linger::kBytes));
}

TEST_F(LingerTest, LittleDataIsNotLeftOut) {
  EXPECT_TRUE(lingers(Linger::kBytes));
  EXPECT_FALSE(lingers(1));
  EXPECT_EQ(left_out(), 1U);
}

TEST_F(LingerTest, LooksAgainUntilSomethingComes) {
  linger.handled(Linger::kBytes);
  int looks = 0;
  EXPECT_TRUE(
      linger.linger([&] { return ++looks == 3 ? 10U : 0U; }, [] { return ipoib::TimePoint(); }));
  EXPECT_EQ(looks, 3);
}

TEST_F(LingerTest, EndsWhenTheTimeIsOver) {
  linger.handled(Linger::kBytes);
  ipoib::TimePoint now{};
  int looks = 0;
  const auto look = [&] {
    ++looks;
    now += Linger::kTime / 4;
    return 0U;
  };
  EXPECT_FALSE(linger.linger(look, [&] { return now; }));
  EXPECT_EQ(looks, 4);
}

}  // namespace
}  // namespace softib::transport
