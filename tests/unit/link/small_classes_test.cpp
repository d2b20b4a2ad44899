// Small classes: rate limit, jitter, announcements, host addresses, parked frames.
#include <vector>

#include "ipoib/token_bucket.hpp"
#include "link/announcer.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

TEST(TokenBucketTest, AdmitsABurstThenTheRate) {
  TokenBucket bucket(10, 4);
  TimePoint now{100s};
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(bucket.take(now));
  EXPECT_FALSE(bucket.take(now));
  int granted = 0;
  for (int i = 0; i < 1000; ++i) {
    now += 10ms;
    granted += bucket.take(now) ? 1 : 0;
  }
  EXPECT_EQ(granted, 100);
}

TEST(TokenBucketTest, ReservationsAreSpacedByTheRate) {
  TokenBucket bucket(10, 1);
  const TimePoint now{100s};
  EXPECT_EQ(bucket.reserve(now), now);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(bucket.next_moment(now), now + i * 100ms);
    EXPECT_EQ(bucket.reserve(now), now + i * 100ms);
  }
  EXPECT_FALSE(bucket.take(now + 1s));
  EXPECT_TRUE(bucket.take(now + 1100ms));
}

TEST(RandomTest, JitterStaysWithinItsRange) {
  Random random(1);
  Duration least = 1h;
  Duration most{};
  for (int i = 0; i < 10000; ++i) {
    const Duration drawn = random.jittered(100s, 50, 150);
    least = std::min(least, drawn);
    most = std::max(most, drawn);
  }
  EXPECT_GE(least, 50s);
  EXPECT_LT(least, 51s);
  EXPECT_LE(most, 150s);
  EXPECT_GT(most, 149s);
}

class AnnouncerTest : public ObjectFixture {
 protected:
  [[nodiscard]] std::vector<Ipv4Address> announced_until(TimePoint end) {
    while (announcer.next_deadline() <= end) {
      now = announcer.next_deadline();
      announcer.tick(now);
    }
    now = end;
    std::vector<Ipv4Address> addresses;
    for (const SentArp& sent : sent_arp()) addresses.push_back(sent.message.sender_protocol);
    forget();
    return addresses;
  }
  Announcer announcer{config, host, arp, nd, out};
};

TEST_F(AnnouncerTest, AnnouncesAFewTimes) {
  announcer.start(Ipv4Address(0x0a2c0001), now);
  EXPECT_EQ(announced_until(now + 1s).size(), 1U);
  EXPECT_EQ(announced_until(now + 1h).size(), config.ageing.announcements - 1U);
  EXPECT_EQ(announcer.next_deadline(), kNever);
}

TEST_F(AnnouncerTest, ManyAddressesAreAnnouncedOneByOne) {
  view.addresses.clear();
  for (std::uint32_t i = 0; i < 100; ++i)
    view.addresses.push_back({Ipv4Address(0x0a2c0001 + i), 16});
  (void)host.update(view);
  announcer.start_all(now);
  EXPECT_LT(announced_until(now).size(), 5U);
  EXPECT_EQ(announced_until(now + 1s).size(), 99U);
}

TEST_F(AnnouncerTest, RemovedAddressIsNotAnnounced) {
  announcer.start(Ipv4Address(0x0a2c0001), now);
  view.addresses.clear();
  (void)host.update(view);
  EXPECT_TRUE(announced_until(now + 1h).empty());
}

TEST_F(AnnouncerTest, PendingAnnouncementsAreLimited) {
  config.limits.announcements = 2;
  for (std::uint32_t i = 0; i < 5; ++i) announcer.start(Ipv4Address(0x0a2c0001 + i), now);
  EXPECT_EQ(count(Counter::announcements_skipped), 3U);
}

TEST(HostAddressesTest, KnowsNewOwnAndBroadcastAddresses) {
  HostView view;
  HostAddresses host;
  const Ipv4Address first(0x0a2c0001);
  const Ipv4Address second(0x0a2d0001);
  EXPECT_TRUE(host.source_for(first).is_unspecified());
  view.addresses = {{first, 24}};
  EXPECT_EQ(host.update(view), (std::vector<IpAddress>{first}));
  EXPECT_TRUE(host.update(view).empty());
  view.addresses = {{first, 24}, {second, 16}, {second, 24}};
  EXPECT_EQ(host.update(view), (std::vector<IpAddress>{second}));
  EXPECT_TRUE(host.is_own(second));
  EXPECT_TRUE(host.is_broadcast(Ipv4Address(0x0a2dffff)));
  EXPECT_FALSE(host.is_broadcast(Ipv4Address(0x0a2cffff)));
  EXPECT_EQ(host.source_for(Ipv4Address(0x0a2d0505)), second) << "in the target's subnet";
  EXPECT_EQ(host.source_for(Ipv4Address(0x01020304)), first) << "no address in the target's subnet";
  EXPECT_FALSE(host.can_be_neighbour(first));
  EXPECT_TRUE(host.can_be_neighbour(Ipv4Address(0x0a2c0002)));
}

/// A neighbour and its path, with two index words each at the lowest load and 32 bytes of heap for
/// the address handle, but without the provider's memory for that.
TEST(NeighbourSizeTest, NeighbourAndPathFitInto312Bytes) {
  // Hints and index.
  constexpr double kIndex = 2 * sizeof(std::uint32_t) * 8.0 / 7.0 + 64 / 10.0;
  EXPECT_LE(sizeof(Neighbour) + sizeof(Path) + 2 * kIndex + 32, 312);
}

TEST(ParkedFramesTest, DestructorReturnsItsFrames) {
  FramePool pool(4, 64);
  Counters counters;
  ParkingBudget budget{
      .bytes_per_neighbour = 1 << 20, .first_packets = 2, .frames = 3, .bytes = 1 << 20};
  {
    ParkedFrames first(budget);
    first.park(pool.take(), Purpose::reply, counters);
    EXPECT_FALSE(first.has_packets());
    first.park(pool.take(), Purpose::packet, counters);
    EXPECT_TRUE(first.has_packets());
    ParkedFrames second(std::move(first));
    EXPECT_EQ(second.size(), 2U);
    EXPECT_TRUE(second.has_packets());
    EXPECT_EQ(budget.used, 1U);
    EXPECT_EQ(budget.replies_used, 1U);
    first = ParkedFrames(budget);
    first.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.used, 2U);
    second = std::move(first);
    EXPECT_EQ(budget.used, 1U);
    EXPECT_EQ(budget.replies_used, 0U);
  }
  EXPECT_EQ(budget.used, 0U);
  EXPECT_EQ(pool.available(), 4U);
}

}  // namespace
}  // namespace ipoib::link
