#include "daemon/alarm.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "daemon/watch.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {
namespace {

TEST(AlarmTest, RingsOnceForTheTimeThatWasSetLast) {
  boost::asio::io_context context;
  int rings = 0;
  Alarm alarm(context, [&] { ++rings; });
  const auto now = monotonic_now();
  alarm.set(now + std::chrono::hours(1));
  alarm.set(now);
  EXPECT_TRUE(alarm.is_set());
  context.run();
  EXPECT_EQ(rings, 1);
  EXPECT_FALSE(alarm.is_set());
}

TEST(AlarmTest, DoesNotRingWhenItIsUnset) {
  boost::asio::io_context context;
  Alarm alarm(context, [] { FAIL(); });
  alarm.set(monotonic_now());
  alarm.set(kNever);
  context.run();
}

TEST(AlarmTest, MaySetItself) {
  boost::asio::io_context context;
  int rings = 0;
  std::optional<Alarm> alarm;
  alarm.emplace(context, [&] {
    if (++rings < 3) alarm->set(monotonic_now());
  });
  alarm->set(monotonic_now());
  context.run();
  EXPECT_EQ(rings, 3);
}

/// Both are due at once, and whichever comes first ends the other.
TEST(AlarmTest, IsSilentOnceItIsGoneThoughItWasDue) {
  boost::asio::io_context context;
  std::optional<Alarm> first;
  std::optional<Alarm> second;
  int rings = 0;
  first.emplace(context, [&] {
    ++rings;
    second.reset();
  });
  second.emplace(context, [&] {
    ++rings;
    first.reset();
  });
  const auto past = monotonic_now() - std::chrono::hours(1);
  first->set(past);
  second->set(past + Duration(1));
  context.run();
  EXPECT_EQ(rings, 1);
}

TEST(WatchTest, IsSilentOnceItIsGoneThoughItsDescriptorIsReadable) {
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
