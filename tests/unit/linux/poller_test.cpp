#include "linux/poller.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "ipoib/monotonic_clock.hpp"
#include "linux/wake_up.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::linux {
namespace {

constexpr std::uint32_t kTag = 7;

TEST(PollerTest, ReportsEachEdgeOnce) {
  SKIP_UNDER_EMULATOR("has no epoll_pwait2");
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
  SKIP_UNDER_EMULATOR("has no epoll_pwait2");
  Poller poller;
  WakeUp wake_up;
  wake_up.signal();
  poller.add(wake_up.descriptor(), kTag);
  EXPECT_EQ(poller.wait(monotonic_now(), kNever).size(), 1U);
}

TEST(PollerTest, SleepsUntilDeadline) {
  SKIP_UNDER_EMULATOR("has no epoll_pwait2");
  Poller poller;
  const auto now = monotonic_now();
  const auto deadline = now + std::chrono::milliseconds(5);
  EXPECT_TRUE(poller.wait(now, deadline).empty());
  EXPECT_GE(monotonic_now(), deadline);
  EXPECT_TRUE(poller.wait(now, now - std::chrono::seconds(1)).empty());
}

TEST(PollerTest, ASignalEndsAWaitWithoutAnEvent) {
  SKIP_UNDER_EMULATOR("has no epoll_pwait2");
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Poller poller;
  const pthread_t waiting = pthread_self();
  std::atomic<bool> has_ended = false;
  // More than once: the first may arrive before the wait begins.
  std::thread sender([&] {
    while (!has_ended) {
      pthread_kill(waiting, SIGUSR1);
      std::this_thread::yield();
    }
  });
  EXPECT_NO_THROW(EXPECT_TRUE(poller.wait(monotonic_now(), kNever).empty()));
  has_ended = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace ipoib::linux
