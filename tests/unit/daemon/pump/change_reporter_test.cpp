#include "daemon/pump/change_reporter.hpp"

#include <gmock/gmock.h>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ChangeReporterTest : public link::LinkFixture {
 protected:
  [[nodiscard]] InterfaceState state() const {
    return {identity_,          status_,      counters_, to_host_, polls_,
            linux::HostDrops(), kDefaultPKey, admin_up_, &view_,   active_};
  }
  void watch(const control::Topics& topics) { reporter_.watch(topics, *link, state()); }
  [[nodiscard]] std::vector<control::Event> take() { return reporter_.take(*link, state(), now); }
  void set_port() {
    status_.port = port;
    link->on_port(port, now);
  }
  /// So many entries are created.
  void create(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(link->set_permanent(Ipv4Address(0x0a2c0100 + i), kPeerHw, now));
    }
  }

  ChangeReporter reporter_;
  InterfaceIdentity identity_{"ibx", "mlx5_0", 2, 4711};
  InterfaceStatus status_;
  verbs::UdCounters counters_;
  offload::Coalescer::Counters to_host_;
  PollPolicy::Counters polls_;
  bool admin_up_ = true;
  PortRole active_ = PortRole::primary;
  ethernet::View view_{{.neighbours = 16, .stations = 16}, link::kHashKey, pool};
};

TEST_F(ChangeReporterTest, ReportsWhatHasChangedOnTheLink) {
  make();
  watch({.link = true});
  EXPECT_THAT(take(), IsEmpty());
  port.sm_lid = Lid(9);
  set_port();
  const auto events = take();
  ASSERT_THAT(events, SizeIs(1));
  const auto& joining = std::get<control::LinkEvent>(events.front());
  EXPECT_THAT(joining.changed,
              UnorderedElementsAre("state", "waiting_for", "gid", "lid", "sm_lid"));
  EXPECT_EQ(joining.info.state, "joining");
  EXPECT_EQ(joining.info.sm_lid, Lid(9));
  EXPECT_THAT(joining.info.groups, IsEmpty());
  grant_joins();
  EXPECT_THAT(take(), IsEmpty()) << "there is a pause between two reports";
  EXPECT_EQ(reporter_.next_deadline(*link), now + ChangeReporter::kPause);
  now += ChangeReporter::kPause;
  const auto later = take();
  ASSERT_THAT(later, SizeIs(1));
  const auto& up = std::get<control::LinkEvent>(later.front());
  EXPECT_THAT(up.changed, UnorderedElementsAre("state", "waiting_for", "mtu", "qkey"));
  EXPECT_EQ(up.info.state, "up");
  EXPECT_EQ(reporter_.next_deadline(*link), kNever);
}

TEST_F(ChangeReporterTest, ReportsThatTheInterfaceIsAdministrativelyDown) {
  bring_up();
  watch({.link = true});
  admin_up_ = false;
  const auto events = take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<control::LinkEvent>(events.front()).changed, ElementsAre("admin_up"));
}

TEST_F(ChangeReporterTest, ReportsThatTheOtherPortServes) {
  bring_up();
  watch({.link = true});
  active_ = PortRole::backup;
  const auto events = take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<control::LinkEvent>(events.front()).changed, ElementsAre("port"));
}

TEST_F(ChangeReporterTest, ReportsThatANeighbourIsDeleted) {
  bring_up();
  create(1);
  watch({.neighbours = true});
  link->remove(Ipv4Address(0x0a2c0100));
  const auto events = take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<control::NeighbourEvent>(events.front()).change, "deleted");
}

TEST_F(ChangeReporterTest, ReportsOnlyWhatIsWatched) {
  bring_up();
  EXPECT_FALSE(reporter_.is_on());
  watch({.neighbours = true});
  EXPECT_TRUE(reporter_.is_on());
  admin_up_ = false;
  resolve_peer();
  const auto events = take();
  ASSERT_THAT(events, SizeIs(3));
  const auto& last = std::get<control::NeighbourEvent>(events.back());
  EXPECT_EQ(last.change, "changed");
  EXPECT_EQ(last.entry.state, "reachable");
  EXPECT_EQ(last.entry.hardware, kPeerHw);
  watch({});
  EXPECT_FALSE(reporter_.is_on());
  link->remove(kPeer);
  EXPECT_THAT(take(), IsEmpty());
  watch({.stats = true});
  EXPECT_FALSE(reporter_.is_on()) << "the server asks for counters";
}

TEST_F(ChangeReporterTest, AChangeThatIsNotReportedYetIsForThoseWhoStillWatch) {
  make();
  watch({.link = true});
  set_port();
  ASSERT_THAT(take(), SizeIs(1));
  grant_joins();
  EXPECT_THAT(take(), IsEmpty()) << "it waits for the end of the pause";
  watch({.neighbours = true, .link = true});
  now += ChangeReporter::kPause;
  EXPECT_THAT(take(), SizeIs(1)) << "another subscriber does not hide it";
  admin_up_ = false;
  EXPECT_THAT(take(), IsEmpty());
  watch({.neighbours = true});
  now += ChangeReporter::kPause;
  EXPECT_THAT(take(), IsEmpty()) << "nobody watches the link any more";
}

TEST_F(ChangeReporterTest, ReportsWhatHappensToStations) {
  make();
  const ethernet::StationEvent event{ethernet::StationEvent::Kind::moved_out, kPeer,
                                     MacAddress(0x11), kPeerHw};
  watch({.neighbours = true});
  reporter_.on_station(event, state(), now);
  EXPECT_EQ(reporter_.next_deadline(*link), kNever) << "nobody wants them";
  watch({.stations = true});
  for (std::size_t i = 0; i < ChangeReporter::kMaxStationEvents + 2; ++i) {
    reporter_.on_station(event, state(), now);
  }
  EXPECT_LE(reporter_.next_deadline(*link), now);
  auto events = take();
  ASSERT_THAT(events, SizeIs(ChangeReporter::kMaxStationEvents + 1));
  EXPECT_EQ(
      std::get<control::StationEvent>(events.front()),
      (control::StationEvent{
          "moved_out", "claimed by " + kPeerHw.to_string(), {kPeer, MacAddress(0x11), "gone"}}));
  EXPECT_EQ(std::get<control::LostEvent>(events.back()).events, 2U);
  reporter_.on_lost(events);
  now += ChangeReporter::kPause;
  events = take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<control::LostEvent>(events.back()).events,
            ChangeReporter::kMaxStationEvents + 2);
}

TEST_F(ChangeReporterTest, ASecondSubscriberDoesNotHideAChange) {
  make();
  watch({.link = true});
  set_port();
  watch({.neighbours = true, .link = true});
  EXPECT_THAT(take(), SizeIs(1));
}

TEST_F(ChangeReporterTest, WhatTheOtherPortHasNotReportedIsLost) {
  bring_up();
  watch({.neighbours = true});
  create(3);
  link::Link other(config, {handles, pool, pool, *link::silent_logger(), link::kHashKey}, kOwnQpn,
                   7);
  reporter_.move(*link, other, now);
  const auto events = reporter_.take(other, state(), now);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<control::LostEvent>(events.front()).events, 3U);
}

TEST_F(ChangeReporterTest, WhatTheOtherPortHasLostIsLostToo) {
  bring_up();
  watch({.neighbours = true});
  create(link::Changes::kMax + 5);
  link::Link other(config, {handles, pool, pool, *link::silent_logger(), link::kHashKey}, kOwnQpn,
                   7);
  reporter_.move(*link, other, now);
  const auto events = reporter_.take(other, state(), now);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<control::LostEvent>(events.front()).events, link::Changes::kMax + 5);
}

TEST_F(ChangeReporterTest, AReportIsBoundedAndSaysWhatIsMissing) {
  bring_up();
  watch({.neighbours = true});
  constexpr std::uint32_t kLost = 5;
  create(link::Changes::kMax + kLost);
  std::size_t received = 0;
  std::uint64_t lost = 0;
  while (reporter_.next_deadline(*link) != kNever) {
    now = std::max(now, reporter_.next_deadline(*link));
    const auto events = take();
    ASSERT_THAT(events, ::testing::Not(IsEmpty()));
    EXPECT_LE(events.size(), ChangeReporter::kMaxEvents + 1);
    for (const auto& event : events) {
      const auto* const gap = std::get_if<control::LostEvent>(&event);
      if (gap != nullptr) lost += gap->events;
      received += gap == nullptr;
    }
  }
  EXPECT_EQ(received, link::Changes::kMax);
  EXPECT_EQ(lost, kLost);
}

TEST_F(ChangeReporterTest, ALostReportIsCountedAndTheLinkReportedAgain) {
  make();
  watch({.neighbours = true, .link = true});
  create(3);
  set_port();
  const auto events = take();
  ASSERT_THAT(events, SizeIs(4));
  reporter_.on_lost(events);
  EXPECT_NE(reporter_.next_deadline(*link), kNever);
  now += ChangeReporter::kPause;
  const auto again = take();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(std::get<control::LinkEvent>(again.front()),
            std::get<control::LinkEvent>(events.front()));
  EXPECT_EQ(std::get<control::LostEvent>(again.back()).events, 3U);
}

}  // namespace
}  // namespace ipoib::daemon
