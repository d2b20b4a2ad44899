#include "linux/ip_neighbours.hpp"

#include <net/if.h>

#include <string>

#include "linux/netlink_sockets.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::linux {
namespace {

using State = IpNeighbourPort::State;

class IpNeighboursTest : public test::NamespaceTest {
 protected:
  void SetUp() override {
    test::NamespaceTest::SetUp();
    if (IsSkipped()) return;
    ip("link add one type veth peer name two");
    for (const char* const device : {"one", "two"}) {
      ip(std::string("link set ") + device + " addrgenmode none up");
    }
    ip("addr add fe80::1/64 dev one nodad");
    ip("addr add fe80::2/64 dev two nodad");
    auto made = IpNeighbours::open();
    ASSERT_TRUE(made);
    neighbours_ = std::move(*made);
    neighbours_->use(if_nametoindex("one"));
  }

  /// Resolves a neighbour and returns its final state.
  State resolve(const Gid& gid) {
    neighbours_->resolve(gid);
    while (neighbours_->state(gid) == State::unknown) {
      if (!test::wait_readable(neighbours_->descriptor())) break;
      neighbours_->take_events();
    }
    return neighbours_->state(gid);
  }

  std::unique_ptr<IpNeighbours> neighbours_;
};

TEST_F(IpNeighboursTest, ResolvesANeighbourWithoutAPacket) {
  const Gid two = *Gid::parse("fe80::2");
  EXPECT_EQ(neighbours_->state(two), State::unknown) << "not resolved yet";
  EXPECT_EQ(resolve(two), State::reachable);
  EXPECT_EQ(resolve(two), State::reachable) << "already known";
}

TEST_F(IpNeighboursTest, FailsWithoutANeighbour) {
  // One solicitation, and a short timeout.
  ASSERT_EQ(std::system("cd /proc/sys/net/ipv6/neigh/one && echo 1 >mcast_solicit && "
                        "echo 100 >retrans_time_ms"),
            0);
  EXPECT_EQ(resolve(*Gid::parse("fe80::3")), State::failed);
}

TEST_F(IpNeighboursTest, AStaleOrPermanentNeighbourIsReachable) {
  for (const char* const state : {"permanent", "noarp", "stale", "reachable"}) {
    ip(std::string("neigh replace fe80::9 lladdr 02:00:00:00:00:09 dev one nud ") + state);
    EXPECT_EQ(neighbours_->state(*Gid::parse("fe80::9")), State::reachable) << state;
  }
  ip("neigh replace fe80::9 dev one nud failed");
  EXPECT_EQ(neighbours_->state(*Gid::parse("fe80::9")), State::failed);
}

TEST_F(IpNeighboursTest, TakesAllEventsAfterAnOverflow) {
  ip("-batch - <<END\n$(for i in $(seq 2000); do echo \"neigh add fe80::1:$i"
     " lladdr 02:00:00:00:00:09 dev one nud permanent\"; done)\nEND");
  constexpr int kMaxTurns = 100;
  int turns = 0;
  pollfd entry{neighbours_->descriptor(), POLLIN, 0};
  for (; turns < kMaxTurns && poll(&entry, 1, 0) == 1; ++turns) neighbours_->take_events();
  EXPECT_GT(turns, 1) << "others get their turn";
  EXPECT_LT(turns, kMaxTurns) << "events are left";
}

TEST_F(IpNeighboursTest, TakesALimitedNumberOfEventsAtATime) {
  ip("-batch - <<END\n$(for i in $(seq " + std::to_string(kMaxEventReads + 4) +
     "); do echo \"neigh add fe80::1:$i lladdr 02:00:00:00:00:09 dev one nud permanent\"; "
     "done)\nEND");
  neighbours_->take_events();
  EXPECT_TRUE(test::wait_readable(neighbours_->descriptor())) << "not all of them";
}

TEST_F(IpNeighboursTest, HasNoNeighboursOnAnUnknownDevice) {
  const Gid two = *Gid::parse("fe80::2");
  ASSERT_EQ(resolve(two), State::reachable);
  neighbours_->use(4711);
  neighbours_->resolve(two);
  EXPECT_EQ(neighbours_->state(two), State::unknown);
  neighbours_->resolve(two);
  neighbours_->use(if_nametoindex("one"));
  EXPECT_EQ(neighbours_->state(two), State::reachable) << "responses are not mixed up";
}

}  // namespace
}  // namespace ipoib::linux
