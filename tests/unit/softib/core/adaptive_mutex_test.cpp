#include "softib/core/adaptive_mutex.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace softib {
namespace {

/// Whether a thread of this process sleeps (proc_pid_stat(5)).
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto after_name = text.rfind(')');
  return after_name != std::string::npos && text.substr(after_name + 2, 1) == "S";
}

TEST(AdaptiveMutexTest, OneThreadAtATimeHoldsIt) {
  constexpr int kTurns = 100'000;
  AdaptiveMutex mutex;
  int turns = 0;  // not atomic
  const auto take_turns = [&] {
    for (int i = 0; i < kTurns; ++i) {
      const std::lock_guard lock(mutex);
      ++turns;
    }
  };
  std::thread other(take_turns);
  take_turns();
  other.join();
  EXPECT_EQ(turns, 2 * kTurns);
}

TEST(AdaptiveMutexTest, WakesAThreadThatSleeps) {
  AdaptiveMutex mutex;
  std::atomic<pid_t> sleeper = 0;
  bool has_held = false;
  mutex.lock();
  std::thread other([&] {
    sleeper = static_cast<pid_t>(::syscall(SYS_gettid));
    const std::lock_guard lock(mutex);
    has_held = true;
  });
  while (sleeper == 0 || !sleeps(sleeper)) std::this_thread::yield();
  EXPECT_FALSE(has_held);
  mutex.unlock();
  other.join();
  EXPECT_TRUE(has_held);
}

TEST(AdaptiveMutexTest, WakesTheNextOneThatSleeps) {
  AdaptiveMutex mutex;
  std::atomic<pid_t> sleepers[2]{};
  int has_held = 0;
  mutex.lock();
  std::thread others[2];
  for (int i = 0; i < 2; ++i) {
    others[i] = std::thread([&, i] {
      sleepers[i] = static_cast<pid_t>(::syscall(SYS_gettid));
      const std::lock_guard lock(mutex);
      ++has_held;
    });
  }
  for (const auto& each : sleepers) {
    while (each == 0 || !sleeps(each)) std::this_thread::yield();
  }
  mutex.unlock();
  for (auto& each : others) each.join();
  EXPECT_EQ(has_held, 2);
}

TEST(AdaptiveMutexTest, IsTriedWithoutWaiting) {
  AdaptiveMutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace softib
