// Announcements of the host's addresses.
#include "link/announcer.hpp"

#include <vector>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

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

TEST_F(AnnouncerTest, AnnouncesAsOftenAsConfigured) {
  for (std::uint8_t times = 0; times < 3; ++times) {
    config.ageing.announcements = times;
    announcer.start(Ipv4Address(0x0a2c0001), now);
    EXPECT_EQ(announced_until(now + 1h).size(), times);
  }
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
  view.addresses.clear();
  for (std::uint32_t i = 0; i < 5; ++i) view.addresses.push_back({Ipv4Address(0x0a2c0001 + i), 16});
  (void)host.update(view);
  announcer.start_all(now);
  EXPECT_EQ(count(Counter::announcements_skipped), 3U);
  EXPECT_EQ(announced_until(now + 1s).size(), 2U);
}

TEST_F(AnnouncerTest, ANeighbourThatHasTheAddressStopsAllButTheFirst) {
  const Ipv4Address own(0x0a2c0001);
  announcer.start(own, now);
  announcer.stop(own);
  EXPECT_EQ(announced_until(now + 1h).size(), 1U);
  announcer.start(own, now);
  EXPECT_EQ(announced_until(now + 1s).size(), 1U);
  announcer.stop(own);
  EXPECT_TRUE(announced_until(now + 1h).empty());
}

TEST_F(AnnouncerTest, ARepetitionDoesNotStartOver) {
  config.ageing.announcements = 2;
  const Ipv4Address own(0x0a2c0001);
  announcer.repeat(own, now);
  EXPECT_EQ(announced_until(now + 1s).size(), 1U);
  announcer.repeat(own, now);
  EXPECT_TRUE(announced_until(now).empty());
  EXPECT_EQ(announced_until(now + 1h).size(), 1U);
  announcer.repeat(own, now);
  EXPECT_EQ(announced_until(now + 1h).size(), 2U);
}

TEST_F(AnnouncerTest, AnAddressIsAnnouncedOnceAtATime) {
  const Ipv4Address own(0x0a2c0001);
  announcer.start(own, now);
  announcer.start(own, now);
  for (TimePoint next = announcer.next_deadline(); next != kNever;
       next = announcer.next_deadline()) {
    now = next;
    announcer.tick(now);
  }
  EXPECT_EQ(sent_arp().size(), config.ageing.announcements);
}

}  // namespace
}  // namespace ipoib::link
