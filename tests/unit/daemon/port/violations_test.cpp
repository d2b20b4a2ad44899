#include "daemon/port/violations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

verbs::PortCounters refused(std::uint64_t by_pkey, std::uint64_t by_qkey) {
  return {.missing_receives = {}, .bad_pkey = by_pkey, .bad_qkey = by_qkey};
}

TEST(Violations, EachCounterThatGrowsIsSaid) {
  Violations violations;
  EXPECT_THAT(violations.on_counters(refused(3, 4)), IsEmpty()) << "before the start";
  EXPECT_THAT(violations.on_counters(refused(3, 4)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(5, 4)), ElementsAre(HasSubstr("P_Key: 2 more")));
  EXPECT_THAT(violations.on_counters(refused(5, 5)), ElementsAre(HasSubstr("Q_Key: 1 more")));
}

TEST(Violations, CountersMayBeReset) {
  Violations violations;
  EXPECT_THAT(violations.on_counters(refused(3, 4)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(0, 0)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(1, 0)), ElementsAre(HasSubstr("P_Key: 1 more")));
}

/// Limited members hear each other's broadcasts as long as they live.
TEST(Violations, ThatGoOnFillNoLog) {
  Violations violations;
  EXPECT_THAT(violations.on_counters(refused(0, 0)), IsEmpty());
  for (const unsigned packets : {1, 2}) {
    EXPECT_THAT(violations.on_counters(refused(packets, 0)), ElementsAre(HasSubstr(": 1 more")));
  }
  EXPECT_THAT(violations.on_counters(refused(3, 0)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(4, 0)), ElementsAre(HasSubstr(": 2 more")));
}

}  // namespace
}  // namespace ipoib::daemon
