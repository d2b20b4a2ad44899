// Figures for monitoring: entries by state, and how long packets wait for a neighbour.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/unit/link/link_fixture.hpp"
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

TEST(DurationHistogramTest, CountsEachDurationInItsBucket) {
  DurationHistogram histogram;
  const auto& bounds = DurationHistogram::kBounds;
  histogram.add(Duration{0});
  histogram.add(bounds.front());  // a bound belongs to its bucket
  histogram.add(bounds.front() + 1ns);
  histogram.add(bounds.back());
  histogram.add(bounds.back() + 1ns);
  EXPECT_EQ(histogram.counts().front(), 2U);
  EXPECT_EQ(histogram.counts()[1], 1U);
  EXPECT_EQ(histogram.counts()[bounds.size() - 1], 1U);
  EXPECT_EQ(histogram.counts().back(), 1U);
  EXPECT_EQ(histogram.sum(), 2 * bounds.front() + 2 * bounds.back() + 2ns);
  EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<>()));
}

class NeighbourFigures : public NeighbourStates {
 protected:
  [[nodiscard]] std::size_t entries() const {
    const auto& all = statistics.entries;
    return std::accumulate(all.begin(), all.end(), std::size_t{0});
  }
  [[nodiscard]] std::uint64_t resolutions() const {
    const auto& counts = statistics.resolution.counts();
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
  /// The number in the bucket of a duration.
  [[nodiscard]] std::uint64_t resolutions_of(Duration duration) const {
    const auto& bounds = DurationHistogram::kBounds;
    const auto bound = std::lower_bound(bounds.begin(), bounds.end(), duration);
    return statistics.resolution.counts()[static_cast<std::size_t>(bound - bounds.begin())];
  }
};

TEST_F(NeighbourFigures, EntriesAreCountedByState) {
  const std::vector<std::pair<NeighbourState, void (NeighbourStates::*)()>> makers{
      {NeighbourState::incomplete, &NeighbourStates::make_incomplete},
      {NeighbourState::reachable, &NeighbourStates::make_reachable},
      {NeighbourState::stale, &NeighbourStates::make_stale},
      {NeighbourState::delay, &NeighbourStates::make_delay},
      {NeighbourState::probing, &NeighbourStates::make_probing},
      {NeighbourState::failed, &NeighbourStates::make_failed},
      {NeighbourState::permanent, &NeighbourStates::make_permanent}};
  ASSERT_EQ(makers.size() + 1, NeighbourStatistics::kStates);
  EXPECT_EQ(entries(), 0U);
  make_resolving();  // the first, as long as the path is unknown
  EXPECT_EQ(statistics.in(NeighbourState::resolving), 1U);
  grant(path_request);
  EXPECT_EQ(statistics.in(NeighbourState::resolving), 0U);
  remove();
  for (const auto& [state, make] : makers) {
    (this->*make)();
    EXPECT_EQ(statistics.in(state), 1U) << name(state);
    EXPECT_EQ(entries(), 1U) << name(state);
    remove();
    EXPECT_EQ(entries(), 0U) << name(state);
  }
}

TEST_F(NeighbourFigures, ExpiredAndEvictedEntriesAreNotCounted) {
  make_failed();
  reach_deadline();
  ASSERT_EQ(state(), "gone");
  EXPECT_EQ(entries(), 0U);
  make_incomplete();
  link_down();
  EXPECT_EQ(entries(), 0U);
  make_reachable();
  link_down();
  EXPECT_EQ(statistics.in(NeighbourState::stale), 1U);
  neighbours.flush();
  EXPECT_EQ(entries(), 0U);
}

TEST_F(NeighbourFigures, AResolutionLastsFromTheFirstPacketUntilItCanBeSent) {
  send();
  now += 2ms;
  send();
  now += 1ms;
  confirm(kPeerHw);
  now += 4ms;
  EXPECT_EQ(resolutions(), 0U) << "the path is missing";
  grant(path_requests().at(0));
  EXPECT_EQ(resolutions_of(7ms), 1U);
  EXPECT_EQ(resolutions(), 1U);
  EXPECT_EQ(statistics.resolution.sum(), 7ms);
  send();
  confirm(kPeerHw);
  EXPECT_EQ(resolutions(), 1U) << "resolved already";
}

TEST_F(NeighbourFigures, APacketMayBeTheFirstToWaitForThePathOnly) {
  learn(kPeerHw);
  now += 1s;
  send();
  now += 300us;
  grant(path_requests().at(0));
  EXPECT_EQ(statistics.resolution.sum(), 300us);
  EXPECT_EQ(resolutions_of(300us), 1U);
}

TEST_F(NeighbourFigures, PermanentEntriesWaitForTheirPath) {
  make_permanent_waiting();
  now += 20ms;
  grant(path_request);
  EXPECT_EQ(statistics.resolution.sum(), 20ms);
}

TEST_F(NeighbourFigures, WithoutAWaitingPacketThereIsNoResolution) {
  learn(kPeerHw);
  now += 1s;
  grant(path_requests().at(0));
  send();
  EXPECT_EQ(resolutions(), 0U);
}

TEST_F(NeighbourFigures, NoResponseIsNoResolution) {
  make_failed();
  now += 1s;
  learn(kPeerHw);
  grant(path_requests().at(0));
  EXPECT_EQ(resolutions(), 0U);
}

TEST_F(NeighbourFigures, NoPathIsNoResolution) {
  make_permanent_waiting();
  refuse(path_request);
  EXPECT_EQ(resolutions(), 0U);
}

using LinkFigures = LinkFixture;

TEST_F(LinkFigures, AreThoseOfItsNeighbours) {
  bring_up();
  EXPECT_EQ(link->neighbour_statistics().entries[0], 0U);
  send(kPeer);
  const auto incomplete = static_cast<std::size_t>(NeighbourState::incomplete);
  EXPECT_EQ(link->neighbour_statistics().entries[incomplete], 1U);
  link->remove(kPeer);
  EXPECT_EQ(link->neighbour_statistics().entries[incomplete], 0U);
}

}  // namespace
}  // namespace ipoib::link
