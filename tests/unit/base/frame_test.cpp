#include "ipoib/frame.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

TEST(FramePool, HandsOutEachSlotOnceAndReusesIt) {
  FramePool pool(2, 128);
  Frame first = pool.take();
  Frame second = pool.take();
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_FALSE(pool.take());
  Frame moved = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from frames are empty
  moved.release();
  EXPECT_EQ(pool.available(), 1U);
}

TEST(Frame, WindowMovesWithinItsSlot) {
  FramePool pool(1, 128);
  Frame frame = pool.take();
  frame.window(44, 20);
  frame.bytes()[0] = 0x45;
  *frame.prepend(4) = 0x08;
  EXPECT_EQ(frame.size(), 24U);
  EXPECT_EQ(frame.headroom(), 40U);
  frame.drop_front(4);
  EXPECT_EQ(frame.bytes()[0], 0x45);
}

TEST(Frame, MetadataMovesWithTheFrameAndIsResetWithIt) {
  FramePool pool(1, 128);
  Frame frame = pool.take();
  frame.window(44, 20);
  EXPECT_FALSE(frame.checksums_valid());
  frame.set_checksums_valid(true);
  frame.drop_front(4);
  Frame moved = std::move(frame);
  EXPECT_TRUE(moved.checksums_valid());
  EXPECT_FALSE(frame.checksums_valid());  // NOLINT(*-use-after-move,*cplusplus.Move)
  moved.window(44, 20);
  EXPECT_FALSE(moved.checksums_valid()) << "window() resets it";
  moved.set_checksums_valid(true);
  moved.release();
  EXPECT_FALSE(pool.take().checksums_valid());
}

}  // namespace
}  // namespace ipoib
