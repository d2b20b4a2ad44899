#include "linux/poller.hpp"

#include <gtest/gtest.h>

#include "ipoib/monotonic_clock.hpp"
#include "linux/wake_up.hpp"

namespace ipoib::host {
namespace {

constexpr std::uint32_t kTag = 7;

TEST(PollerTest, ReportsEachEdgeOnce) {
  Poller poller;
  WakeUp wake_up;
  poller.add(wake_up.descriptor(), kTag);
  const auto now = monotonic_now();
  EXPECT_TRUE(poller.wait(now, now).empty());
  wake_up.signal();
  const auto ready = poller.wait(now, kNever);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0], kTag);
  EXPECT_TRUE(poller.wait(now, now).empty()) << "still readable, but no edge";
  wake_up.signal();
  EXPECT_EQ(poller.wait(now, now).size(), 1U);
}

TEST(PollerTest, ReportsDescriptorReadableBeforeAdd) {
  Poller poller;
  WakeUp wake_up;
  wake_up.signal();
  poller.add(wake_up.descriptor(), kTag);
  EXPECT_EQ(poller.wait(monotonic_now(), kNever).size(), 1U);
}

TEST(PollerTest, SleepsUntilDeadline) {
  Poller poller;
  const auto now = monotonic_now();
  const auto deadline = now + std::chrono::milliseconds(5);
  EXPECT_TRUE(poller.wait(now, deadline).empty());
  EXPECT_GE(monotonic_now(), deadline);
  EXPECT_TRUE(poller.wait(now, now - std::chrono::seconds(1)).empty());
}

}  // namespace
}  // namespace ipoib::host
