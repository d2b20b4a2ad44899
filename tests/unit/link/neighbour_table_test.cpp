// Times of neighbours, and which entry a full table evicts.
#include <set>

#include "tests/unit/link/link_fixture.hpp"
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

class NeighbourEviction : public ObjectFixture {
 protected:
  static constexpr Ipv4Address kFirst{0x0a2c0010};
  static constexpr Ipv4Address kSecond{0x0a2c0011};
  static constexpr Ipv4Address kThird{0x0a2c0012};

  /// A table of two entries.
  Config small = [] {
    Config made;
    made.limits.neighbours = 2;
    return made;
  }();
  NeighbourTable few{
      {small, paths, solicitor, icmp, pool, out, parking, statistics, random, *silent_logger()},
      kHashKey};

  ~NeighbourEviction() override { few.clear(Counter::drop_link_down); }
  Neighbour& reachable(const IpAddress& address) {
    prepare_path(kPeerHw.gid);
    Neighbour& made = *few.create(address, Purpose::packet);
    few.address(made, kPeerHw, Evidence::confirmed, now);
    few.packet(made, packet(), now);
    return made;
  }
};

TEST_F(NeighbourEviction, TheLeastRecentlyUsedActiveEntryIsEvicted) {
  for (const bool first_is_used_last : {false, true}) {
    reachable(kFirst);
    now += 1s;
    reachable(kSecond);
    now += 1s;
    if (first_is_used_last) few.packet(*few.find(kFirst), packet(), now);
    ASSERT_NE(few.create(kThird, Purpose::packet), nullptr);
    EXPECT_EQ(few.find(kFirst) != nullptr, first_is_used_last);
    EXPECT_EQ(few.find(kSecond) != nullptr, !first_is_used_last);
    few.address(*few.find(kThird), kPeerHw, Evidence::confirmed, now);
    few.clear(Counter::drop_link_down);
  }
}

TEST_F(NeighbourEviction, AnEntryWithParkedFramesStays) {
  Neighbour& waiting = *few.create(kFirst, Purpose::packet);
  few.packet(waiting, packet(), now);
  few.address(waiting, kNewPeerHw, Evidence::confirmed, now);
  ASSERT_EQ(waiting.state_name(), NeighbourState::resolving);
  now += 1s;
  reachable(kSecond);
  ASSERT_NE(few.create(kThird, Purpose::packet), nullptr);
  EXPECT_NE(few.find(kFirst), nullptr) << "although it was used least recently";
  EXPECT_EQ(few.find(kSecond), nullptr);
  few.address(*few.find(kThird), kPeerHw, Evidence::confirmed, now);
}

using NeighbourTimes = NeighbourStates;

/// Neighbours that were confirmed together do not have to be confirmed again together.
TEST_F(NeighbourTimes, ConfirmationsEndAtDifferentTimes) {
  constexpr std::uint32_t kNeighbours = 50;
  prepare_path(kPeerHw.gid);
  for (std::uint32_t i = 0; i < kNeighbours; ++i) {
    HwAddress address = kPeerHw;
    address.qpn = Qpn(100 + i);
    neighbours.address(*neighbours.create(Ipv4Address(0x0a2c0010 + i), Purpose::packet), address,
                       Evidence::confirmed, now);
  }
  const TimePoint begin = now;
  const Duration reachable = config.ageing.reachable;
  std::set<TimePoint> ends;
  while (neighbours.next_deadline() <= begin + 2 * reachable) {
    now = neighbours.next_deadline();
    ends.insert(now);
    neighbours.tick(now);
  }
  EXPECT_GT(ends.size(), kNeighbours / 2);
  EXPECT_GE(*ends.begin() - begin, reachable / 2);
  EXPECT_LT(*ends.begin() - begin, reachable);
}

}  // namespace
}  // namespace ipoib::link
