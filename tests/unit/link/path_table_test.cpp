// Times of paths, and which paths a full table keeps.
#include <set>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using PathTableObjects = ObjectFixture;

/// Paths that were requested together are not requested again together.
TEST_F(PathTableObjects, RefreshesAreSpread) {
  constexpr std::uint64_t kPaths = 50;
  for (std::uint64_t guid = 100; guid < 100 + kPaths; ++guid) prepare_path(port_gid(guid));
  const TimePoint begin = now;
  std::set<TimePoint> refreshes;
  while (paths.next_deadline() < begin + 2 * config.path.refresh) {
    now = paths.next_deadline();
    refreshes.insert(now);
    paths.tick(now);
  }
  EXPECT_GT(refreshes.size(), kPaths / 2);
  EXPECT_GE(*refreshes.begin() - begin, config.path.refresh * 3 / 4);
  EXPECT_LT(*refreshes.begin() - begin, config.path.refresh);
  EXPECT_GT(*refreshes.rbegin() - begin, config.path.refresh);
  EXPECT_LE(*refreshes.rbegin() - begin, config.path.refresh * 5 / 4);
}

/// A path that fails is remembered beyond its pause, also without a user.
TEST_F(PathTableObjects, PausesGrowIfThePathIsUnusedMeanwhile) {
  const auto fail = [this] {
    const PathRef user = paths.acquire(kPeerHw.gid);
    EXPECT_EQ(paths.use(*user, now), PathTable::Condition::pending);
    refuse(path_requests().at(0));
    forget();
    const TimePoint began = now;
    while (paths.use(*user, now) == PathTable::Condition::failed) now += 100ms;
    refuse(path_requests().at(0));
    forget();
    return now - began;
  };
  const Duration first = fail();
  // The second pause, and a while after it.
  const TimePoint end = now + config.path.negative.last;
  while (paths.next_deadline() <= end) {
    now = paths.next_deadline();
    paths.tick(now);
  }
  now = end;
  EXPECT_GT(fail(), 2 * first);
}

TEST_F(PathTableObjects, APathThatIsUsedAgainIsNotEvicted) {
  config.limits.paths = 1;
  prepare_path(kPeerHw.gid);
  kept.clear();
  const PathRef again = paths.acquire(kPeerHw.gid);
  ASSERT_TRUE(again);
  EXPECT_FALSE(paths.acquire(kNewPeerHw.gid));
  EXPECT_NE(paths.find(kPeerHw.gid), nullptr);
  EXPECT_EQ(count(Counter::paths_evicted), 0U);
}

TEST_F(PathTableObjects, AnUnusedPathThatBecomesInvalidIsForgotten) {
  prepare_path(kPeerHw.gid);
  kept.clear();
  ASSERT_NE(paths.find(kPeerHw.gid), nullptr) << "a user may come back";
  paths.invalidate_all("test");
  EXPECT_EQ(paths.find(kPeerHw.gid), nullptr);
}

}  // namespace
}  // namespace ipoib::link
