#include "daemon/pump/pools.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

/// What is parked, or is being sent, must not keep the host's packets out.
TEST(PoolsTest, HaveRoomForABatchBesidesWhatIsParkedAndPosted) {
  const link::Config config;
  const auto& limits = config.limits;
  const verbs::QueueDepths depths;
  const Pools pools(2048, config, depths);
  EXPECT_GE(pools.host.available(), limits.parked + limits.parked_replies + depths.send + kBatch);
  constexpr std::size_t kLargest = 65535, kPosted = 16;  // which fill the send queue
  EXPECT_GE(pools.large.available(), limits.parked_bytes / kLargest + kPosted);
}

}  // namespace
}  // namespace ipoib::daemon
