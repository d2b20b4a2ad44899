#include "daemon/port/violations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

using ::testing::AllOf;
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
  EXPECT_THAT(violations.on_counters(refused(5, 4)),
              ElementsAre(AllOf(HasSubstr("refused 2 "), HasSubstr("P_Key"))));
  EXPECT_THAT(violations.on_counters(refused(5, 5)),
              ElementsAre(AllOf(HasSubstr("refused 1 "), HasSubstr("Q_Key"))));
}

TEST(Violations, CountersMayBeReset) {
  Violations violations;
  EXPECT_THAT(violations.on_counters(refused(3, 4)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(0, 0)), IsEmpty());
  EXPECT_THAT(violations.on_counters(refused(1, 0)), ElementsAre(HasSubstr("refused 1 ")));
}

}  // namespace
}  // namespace ipoib::daemon
