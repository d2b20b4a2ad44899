// The timer queue, alone and compared with a std::multimap.
#include "link/cache/timer_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <map>
#include <random>
#include <vector>

namespace ipoib::link::cache {
namespace {

using namespace std::chrono_literals;

struct Alarm : Timed {};

TEST(TimerQueueTest, PopsInOrderOfDeadline) {
  std::vector<Alarm> alarms(3);
  TimerQueue<Alarm> queue;
  EXPECT_EQ(queue.next(), kNever);
  queue.arm(alarms[0], TimePoint(3s));
  queue.arm(alarms[1], TimePoint(1s));
  queue.arm(alarms[2], TimePoint(2s));
  EXPECT_EQ(queue.next(), TimePoint(1s));
  queue.arm(alarms[1], TimePoint(4s));
  EXPECT_EQ(queue.pop_due(TimePoint(1s)), nullptr);
  EXPECT_EQ(queue.pop_due(TimePoint(3s)), &alarms[2]);
  EXPECT_EQ(queue.pop_due(TimePoint(3s)), &alarms[0]);
  EXPECT_EQ(queue.pop_due(TimePoint(3s)), nullptr);
  queue.arm(alarms[1], kNever);
  EXPECT_EQ(queue.next(), kNever);
}

TEST(TimerQueueTest, MovesFewObjectsInACall) {
  std::list<Alarm> alarms(1000);
  TimerQueue<Alarm> queue;
  TimePoint deadline(1h);
  for (Alarm& alarm : alarms) queue.arm(alarm, deadline += 1ns);
  EXPECT_EQ(queue.pop_due(deadline), nullptr);
  EXPECT_LE(queue.next(), deadline) << "more is due";
  std::size_t popped = 0;
  for (int calls = 0; queue.next() <= deadline && calls < 2000; ++calls) {
    popped += queue.pop_due(deadline) != nullptr ? 1U : 0U;
  }
  EXPECT_EQ(popped, alarms.size());
}

TEST(TimerQueueTest, DestroyedObjectLeavesTheQueue) {
  TimerQueue<Alarm> queue;
  {
    Alarm alarm;
    queue.arm(alarm, TimePoint(1s));
  }
  EXPECT_EQ(queue.next(), kNever);
  EXPECT_EQ(queue.pop_due(TimePoint(1h)), nullptr);
}

TEST(TimerQueueTest, IsExactToTheNanosecondForAnyDistance) {
  for (const Duration ahead : {Duration(1ns), Duration(63ns), Duration(64ns), Duration(4095ns),
                               Duration(1ms), Duration(68719476736ns), Duration(24h * 365 * 200)}) {
    TimerQueue<Alarm> queue;
    Alarm alarm;
    const TimePoint begin(12345678912345ns);
    EXPECT_EQ(queue.pop_due(begin), nullptr);
    queue.arm(alarm, begin + ahead);
    EXPECT_EQ(queue.next(), begin + ahead);
    EXPECT_EQ(queue.pop_due(begin + ahead - 1ns), nullptr);
    EXPECT_EQ(queue.next(), begin + ahead);
    EXPECT_EQ(queue.pop_due(begin + ahead), &alarm);
    EXPECT_EQ(alarm.armed_for(), kNever);
  }
}

TEST(TimerQueueTest, PastDeadlineIsDueAtOnce) {
  TimerQueue<Alarm> queue;
  Alarm late;
  Alarm future;
  EXPECT_EQ(queue.pop_due(TimePoint(1h)), nullptr);
  queue.arm(future, TimePoint(1h + 1ns));
  queue.arm(late, TimePoint(1s));
  EXPECT_EQ(queue.next(), TimePoint(1s));
  EXPECT_EQ(queue.pop_due(TimePoint(1h)), &late);
  EXPECT_EQ(queue.pop_due(TimePoint(1h)), nullptr);
  EXPECT_EQ(queue.next(), TimePoint(1h + 1ns));
}

/// So that the event loop does not wake up for a disarmed timer more than once.
TEST(TimerQueueTest, NextForgetsADisarmedDeadlineWhenItHasPassed) {
  TimerQueue<Alarm> queue;
  std::vector<Alarm> alarms(2);
  queue.arm(alarms[0], TimePoint(30s));
  queue.arm(alarms[1], TimePoint(30s + 1ms));
  queue.arm(alarms[0], kNever);
  EXPECT_LE(queue.next(), TimePoint(30s + 1ms));
  EXPECT_EQ(queue.pop_due(TimePoint(30s)), nullptr);
  EXPECT_EQ(queue.next(), TimePoint(30s + 1ms));
}

/// Thousands of objects in one slot do not delay the caller: pop_due() returns null from time to
/// time although more is due, and next() says so.
TEST(TimerQueueTest, CascadeOfALargeSlotIsSplitAcrossCalls) {
  TimerQueue<Alarm> queue;
  std::vector<Alarm> alarms(5000);
  const TimePoint end = TimePoint(2000s);
  for (std::size_t i = 0; i < alarms.size(); ++i) {
    queue.arm(alarms[i], end - Duration(i * 7919 % alarms.size()));
  }
  std::size_t pauses = 0;
  std::size_t fired = 0;
  for (TimePoint last{}; queue.next() <= end;) {
    const Alarm* const due = queue.pop_due(end);
    if (due == nullptr) {
      ++pauses;
      continue;
    }
    ++fired;
    const auto index = static_cast<std::size_t>(due - alarms.data());
    const TimePoint deadline = end - Duration(index * 7919 % alarms.size());
    ASSERT_GT(deadline, last);
    last = deadline;
  }
  EXPECT_EQ(fired, alarms.size());
  EXPECT_GT(pauses, 10U);
}

/// Arms, disarms and destroys alarms at random, and compares the order with that of a multimap.
class Model {
 public:
  explicit Model(std::uint32_t seed) : random_(seed) {}

  void step() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        return arm(any());
      case 4:
        queue_.arm(any(), kNever);
        return;
      case 5:
        // Destroys one, whether it is armed or not.
        alarms_.erase(std::next(alarms_.begin(), static_cast<long>(random_() % alarms_.size())));
        alarms_.emplace_back();
        return;
      default:
        return pass();
    }
  }
  [[nodiscard]] std::size_t fired() const { return fired_; }

 private:
  [[nodiscard]] Alarm& any() {
    return *std::next(alarms_.begin(), static_cast<long>(random_() % alarms_.size()));
  }
  /// From nanoseconds to months; each order of magnitude is equally likely.
  [[nodiscard]] Duration span() {
    return Duration(static_cast<Duration::rep>(random_() >> (11 + random_() % 52)));
  }
  void arm(Alarm& alarm) {
    const std::uint64_t kind = random_() % 16;
    if (kind == 0) return queue_.arm(alarm, kNever);
    if (kind == 1) return queue_.arm(alarm, now_ - std::min(span(), now_.time_since_epoch()));
    queue_.arm(alarm, now_ + span());
  }
  [[nodiscard]] TimePoint first() const {
    TimePoint first = kNever;
    for (const Alarm& alarm : alarms_) first = std::min(first, alarm.armed_for());
    return first;
  }
  /// Advances to the next deadline or past several. Deadlines that had passed when they were armed
  /// may come in any order.
  void pass() {
    const TimePoint before = now_;
    ASSERT_LE(queue_.next(), first());
    now_ = std::max(now_, random_() % 4 == 0 ? now_ + span() : std::min(first(), now_ + 1h));
    std::multimap<TimePoint, const Alarm*> due;
    for (const Alarm& alarm : alarms_) {
      if (alarm.armed_for() <= now_) due.emplace(std::max(alarm.armed_for(), before), &alarm);
    }
    while (!due.empty()) {
      ASSERT_LE(queue_.next(), now_);
      const Alarm* const popped = queue_.pop_due(now_);
      const auto [from, to] = due.equal_range(due.begin()->first);
      const auto at =
          std::find_if(from, to, [&](const auto& each) { return each.second == popped; });
      ASSERT_NE(at, to) << "at " << now_.time_since_epoch().count();
      due.erase(at);
      ++fired_;
    }
    ASSERT_EQ(queue_.pop_due(now_), nullptr);
    ASSERT_GT(queue_.next(), now_);
  }

  std::mt19937_64 random_;
  std::list<Alarm> alarms_ = std::list<Alarm>(50);
  TimerQueue<Alarm> queue_;
  TimePoint now_{1s};
  std::size_t fired_ = 0;
};

TEST(TimerQueueTest, AgreesWithAMultimap) {
  std::size_t fired = 0;
  for (std::uint32_t seed = 0; seed < 100 && !testing::Test::HasFatalFailure(); ++seed) {
    Model model(seed);
    for (int i = 0; i < 1000 && !testing::Test::HasFatalFailure(); ++i) model.step();
    fired += model.fired();
  }
  EXPECT_GT(fired, 1000U);
}

}  // namespace
}  // namespace ipoib::link::cache
