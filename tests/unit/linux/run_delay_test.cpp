#include "linux/run_delay.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace ipoib::host {
namespace {

TEST(RunDelayTest, GrowsWhileAnotherThreadHasTheProcessor) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);

  const RunDelay delay;
  const auto begin = delay.read();
  if (!begin) GTEST_SKIP() << "the kernel does not say";
  std::atomic<bool> stop = false;
  std::thread other([&] {  // inherits the processor
    while (!stop) {
    }
  });
  while (*delay.read() < *begin + std::chrono::milliseconds(20)) sched_yield();
  stop = true;
  other.join();
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace ipoib::host
