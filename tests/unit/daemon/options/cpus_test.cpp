#include "daemon/options/cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <thread>

namespace ipoib::daemon {
namespace {

/// The CPUs of the calling thread.
std::vector<unsigned> own_cpus() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<unsigned> out;
  for (unsigned cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  }
  return out;
}

TEST(CpusTest, KnowsWhichCpusAThreadCanRunOn) {
  const auto before = own_cpus();
  for (const unsigned cpu : before) EXPECT_TRUE(can_run_on(cpu)) << cpu;
  EXPECT_FALSE(can_run_on(kMaxCpus));
  if (std::thread::hardware_concurrency() < kMaxCpus) {
    EXPECT_FALSE(can_run_on(kMaxCpus - 1));
  }
  EXPECT_EQ(own_cpus(), before) << "the calling thread stays where it is";
}

TEST(CpusTest, DistributesThreadsEvenly) {
  CpuShares shares({5, 3});
  const CpuShares::Share first(shares);
  auto second = std::make_unique<CpuShares::Share>(shares);
  EXPECT_EQ(first.cpu(), 5U);
  EXPECT_EQ(second->cpu(), 3U);
  second.reset();
  const CpuShares::Share third(shares);
  EXPECT_EQ(third.cpu(), 3U) << "it has become free";
  EXPECT_EQ(CpuShares::Share(shares).cpu(), 5U) << "both have one, so in turn";
}

TEST(CpusTest, PinsTheCallingThread) {
  const auto before = own_cpus();
  CpuShares shares({before.back()});
  const CpuShares::Share share(shares);
  std::thread([&] {
    EXPECT_TRUE(share.pin_thread());
    EXPECT_EQ(own_cpus(), std::vector<unsigned>{before.back()});
  }).join();
  EXPECT_EQ(own_cpus(), before);
}

TEST(CpusTest, DoesNotPinWithoutCpus) {
  CpuShares none({});
  const CpuShares::Share share(none);
  EXPECT_EQ(share.cpu(), std::nullopt);
  const auto before = own_cpus();
  EXPECT_TRUE(share.pin_thread());
  EXPECT_EQ(own_cpus(), before);
}

TEST(CpusTest, SaysThatACpuHasGone) {
  if (can_run_on(kMaxCpus - 1)) GTEST_SKIP() << "there are so many";
  CpuShares shares({kMaxCpus - 1});
  const CpuShares::Share share(shares);
  const auto pinned = share.pin_thread();
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().message,
            "cannot pin the thread to CPU 1023: Invalid argument; choose one with --cpu that this "
            "process may use (taskset -cp PID)");
}

}  // namespace
}  // namespace ipoib::daemon
