#include "daemon/process/timer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "daemon/process/watch.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {
namespace {

TEST(TimerTest, ExpiresOnceAtTheLastDeadline) {
  boost::asio::io_context context;
  int calls = 0;
  Timer timer(context, [&] { ++calls; });
  const auto now = monotonic_now();
  timer.set(now + std::chrono::hours(1));
  timer.set(now);
  EXPECT_TRUE(timer.is_set());
  context.run();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(timer.is_set());
}

TEST(TimerTest, DoesNotExpireWhenCancelled) {
  boost::asio::io_context context;
  Timer timer(context, [] { FAIL(); });
  timer.set(monotonic_now());
  timer.set(kNever);
  context.run();
}

TEST(TimerTest, CallbackMaySetItAgain) {
  boost::asio::io_context context;
  int calls = 0;
  std::optional<Timer> timer;
  timer.emplace(context, [&] {
    if (++calls < 3) timer->set(monotonic_now());
  });
  timer->set(monotonic_now());
  context.run();
  EXPECT_EQ(calls, 3);
}

/// Both are due at once; the first one destroys the other.
TEST(TimerTest, DoesNotExpireAfterDestruction) {
  boost::asio::io_context context;
  std::optional<Timer> first;
  std::optional<Timer> second;
  int calls = 0;
  first.emplace(context, [&] {
    ++calls;
    second.reset();
  });
  second.emplace(context, [&] {
    ++calls;
    first.reset();
  });
  const auto past = monotonic_now() - std::chrono::hours(1);
  first->set(past);
  second->set(past + Duration(1));
  context.run();
  EXPECT_EQ(calls, 1);
}

TEST(WatchTest, DoesNotCallAfterDestruction) {
  std::array<int, 2> one{};
  std::array<int, 2> other{};
  ASSERT_EQ(::pipe(one.data()), 0);
  ASSERT_EQ(::pipe(other.data()), 0);
  ASSERT_EQ(::write(one[1], "x", 1), 1);
  ASSERT_EQ(::write(other[1], "x", 1), 1);
  {
    boost::asio::io_context context;
    std::optional<Watch> first;
    std::optional<Watch> second;
    int calls = 0;
    first.emplace(context, one[0], [&] {
      ++calls;
      second.reset();
      first->stop();
    });
    second.emplace(context, other[0], [&] {
      ++calls;
      first.reset();
      second->stop();
    });
    context.run();
    EXPECT_EQ(calls, 1);
  }
  for (const int fd : {one[0], one[1], other[0], other[1]}) ::close(fd);
}

}  // namespace
}  // namespace ipoib::daemon
