#include "daemon/path_monitor.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon::path_test_tests {
namespace {

using namespace std::chrono_literals;

constexpr auto kPrimary = PortRole::primary;
constexpr auto kBackup = PortRole::backup;
constexpr Lid kHighest{5};

class PathMonitorTest : public ::testing::Test {
 protected:
  void begin() {
    now += PathMonitor::kInterval;
    ASSERT_TRUE(test.begin(kHighest, now));
  }
  bool result(PortRole role, bool answered) { return test.on_result(role, test.round(), answered); }
  void be_silent(PortRole role) {
    begin();
    EXPECT_FALSE(result(other_than(role), true));
    EXPECT_TRUE(result(role, false));
    ASSERT_TRUE(test.is_silent(role));
  }

  PathMonitor test;
  TimePoint now{1000s};
};

TEST_F(PathMonitorTest, APortIsSilentIfOnlyTheOtherOneIsAnswered) {
  be_silent(kPrimary);
  EXPECT_FALSE(test.is_silent(kBackup));
  begin();
  EXPECT_FALSE(result(kBackup, true));
  EXPECT_TRUE(result(kPrimary, true));
  EXPECT_FALSE(test.is_silent(kPrimary)) << "one answer is enough";
}

TEST_F(PathMonitorTest, AnSaThatAnswersNobodyChangesNothing) {
  begin();
  EXPECT_FALSE(result(kPrimary, false));
  EXPECT_FALSE(result(kBackup, false));
  EXPECT_FALSE(test.is_silent(kPrimary) || test.is_silent(kBackup));
  be_silent(kPrimary);
  begin();
  EXPECT_FALSE(result(kPrimary, false));
  EXPECT_FALSE(result(kBackup, false));
  EXPECT_TRUE(test.is_silent(kPrimary)) << "the verdict stays";
}

TEST_F(PathMonitorTest, AsksAgainOnlyWhenBothHaveResults) {
  begin();
  EXPECT_FALSE(test.begin(kHighest, now + 1s)) << "too early";
  (void)result(kBackup, true);
  now += PathMonitor::kInterval;
  EXPECT_FALSE(test.begin(kHighest, now)) << "the other request is still repeated";
  EXPECT_EQ(test.next_deadline(), now + PathMonitor::kInterval);
  (void)result(kPrimary, false);
  begin();
}

TEST_F(PathMonitorTest, AResultOfAnEarlierRoundIsIgnored) {
  begin();
  const auto before = test.round();
  (void)test.stop();
  begin();
  EXPECT_FALSE(test.on_result(kBackup, test.round(), true));
  EXPECT_FALSE(test.on_result(kPrimary, before, false));
  EXPECT_FALSE(test.is_silent(kPrimary));
}

TEST_F(PathMonitorTest, WithoutTestsNoPortIsSilent) {
  be_silent(kBackup);
  EXPECT_TRUE(test.stop());
  EXPECT_FALSE(test.is_silent(kBackup));
  EXPECT_FALSE(test.stop());
}

TEST_F(PathMonitorTest, ALargeSubnetIsAskedLessOften) {
  EXPECT_EQ(PathMonitor::interval(Lid(1)), 2s);
  EXPECT_EQ(PathMonitor::interval(Lid(1000)), 40s);
  EXPECT_EQ(PathMonitor::interval(Lid(0xbfff)), 2min);
}

}  // namespace
}  // namespace ipoib::daemon::path_test_tests
