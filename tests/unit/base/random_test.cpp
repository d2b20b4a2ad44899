// The range of jitter.
#include "ipoib/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ipoib {
namespace {

using namespace std::chrono_literals;

TEST(RandomTest, JitterStaysWithinItsRange) {
  Random random(1);
  Duration least = 1h;
  Duration most{};
  for (int i = 0; i < 10000; ++i) {
    const Duration drawn = random.jittered(100s, 50, 150);
    least = std::min(least, drawn);
    most = std::max(most, drawn);
  }
  EXPECT_GE(least, 50s);
  EXPECT_LT(least, 51s);
  EXPECT_LE(most, 150s);
  EXPECT_GT(most, 149s);
}

}  // namespace
}  // namespace ipoib
