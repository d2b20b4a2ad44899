#include "daemon/options/logging.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace ipoib::daemon {
namespace {

TEST(LoggingTest, ReadsTheTimeZoneBeforeAnyThreadLogs) {
  ASSERT_EQ(::setenv("TZ", "EAST-3", 1), 0);
  const Logging logs(LogTarget::standard_error, {});
  EXPECT_EQ(::timezone, -3 * 3600);
}

}  // namespace
}  // namespace ipoib::daemon
