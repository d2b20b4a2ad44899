// Which connections are served, in which order, and when.
#include "softib/hca/connection/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ConnectionScheduleTest : public testing::Test {
 protected:
  static constexpr PeerProcess kNear{5, 0};
  static constexpr PeerProcess kFar{6, 0};
  static constexpr ipoib::TimePoint kNow{std::chrono::seconds(10)};

  /// Takes all active ones: their indices.
  std::vector<std::size_t> take_all() {
    std::vector<std::size_t> out;
    while (schedule.has_active()) {
      out.push_back(static_cast<std::size_t>(&schedule.take() - entries.data()));
    }
    return out;
  }

  std::array<ScheduleEntry, 4> entries;
  ConnectionSchedule schedule;
};

TEST_F(ConnectionScheduleTest, ActiveOnesAreTakenInTurnAndOnce) {
  schedule.activate(entries[2]);
  schedule.activate(entries[0]);
  schedule.activate(entries[2]);
  EXPECT_THAT(take_all(), ElementsAre(2U, 0U));
}

TEST_F(ConnectionScheduleTest, PostponedOnesAreResumedBeforeOthers) {
  schedule.activate(entries[0]);
  schedule.activate(entries[1]);
  schedule.postpone_active();
  EXPECT_FALSE(schedule.has_active());
  EXPECT_EQ(schedule.resume_at(kNow), kNow);
  schedule.activate(entries[2]);
  schedule.activate(entries[0]);
  schedule.resume();
  EXPECT_EQ(schedule.resume_at(kNow), ipoib::kNever);
  EXPECT_THAT(take_all(), ElementsAre(0U, 1U, 2U));
}

TEST_F(ConnectionScheduleTest, OnlyTheFirstThatWaitsForAReceiverMaySend) {
  schedule.wait_for_room(entries[0], kNear);
  schedule.wait_for_room(entries[1], kNear);
  EXPECT_TRUE(schedule.admits(entries[0], kNear));
  EXPECT_FALSE(schedule.admits(entries[1], kNear));
  EXPECT_FALSE(schedule.admits(entries[2], kNear));
  EXPECT_TRUE(schedule.admits(entries[2], kFar));
  EXPECT_EQ(schedule.resume_at(kNow), kNow + kRoomRetry);
  schedule.resume();
  EXPECT_THAT(take_all(), ElementsAre(0U));
}

TEST_F(ConnectionScheduleTest, OneThatFindsNoRoomAgainWaitsBehindTheOthers) {
  schedule.wait_for_room(entries[0], kNear);
  schedule.wait_for_room(entries[1], kNear);
  schedule.wait_for_room(entries[0], kNear);
  EXPECT_TRUE(schedule.admits(entries[1], kNear));
  schedule.wait_for_room(entries[0], kNear);
  EXPECT_TRUE(schedule.admits(entries[1], kNear)) << "it was not the first";
}

TEST_F(ConnectionScheduleTest, TheNextIsServedWhenTheFirstHasFoundRoom) {
  schedule.wait_for_room(entries[0], kNear);
  schedule.wait_for_room(entries[1], kNear);
  schedule.stop_waiting(entries[0]);
  EXPECT_THAT(take_all(), ElementsAre(1U));
  schedule.stop_waiting(entries[1]);
  EXPECT_THAT(take_all(), IsEmpty());
  EXPECT_EQ(schedule.resume_at(kNow), ipoib::kNever);
}

TEST_F(ConnectionScheduleTest, ATimerActivatesOnce) {
  using std::chrono::seconds;
  schedule.set_timer(entries[0], kNow + seconds(3));
  schedule.set_timer(entries[1], kNow + seconds(1));
  schedule.set_timer(entries[0], kNow + seconds(2));
  schedule.set_timer(entries[0], kNow + seconds(9));
  EXPECT_EQ(schedule.next_timer(), kNow + seconds(1));
  schedule.expire(kNow + seconds(1));
  EXPECT_THAT(take_all(), ElementsAre(1U));
  EXPECT_EQ(schedule.next_timer(), kNow + seconds(2)) << "the earliest time that was set";
  schedule.expire(kNow + seconds(2));
  EXPECT_THAT(take_all(), ElementsAre(0U));
  EXPECT_EQ(schedule.next_timer(), ipoib::kNever);
}

TEST_F(ConnectionScheduleTest, OneThatIsRemovedIsInNoList) {
  schedule.activate(entries[0]);
  schedule.postpone_active();
  schedule.activate(entries[1]);
  schedule.wait_for_room(entries[0], kNear);
  schedule.wait_for_room(entries[2], kNear);
  schedule.set_timer(entries[0], kNow);
  schedule.remove(entries[0]);
  schedule.resume();
  EXPECT_EQ(schedule.next_timer(), ipoib::kNever);
  EXPECT_THAT(take_all(), ElementsAre(1U, 2U));
}

}  // namespace
}  // namespace softib::hca
