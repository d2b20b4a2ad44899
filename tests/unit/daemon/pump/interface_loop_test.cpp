#include "daemon/pump/interface_loop.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>

#include "daemon/pump/pools.hpp"
#include "tests/unit/daemon/pump/fake_ports.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InterfaceLoopTest : public ::testing::Test {
 protected:
  explicit InterfaceLoopTest(const Pump::Settings& of = settings())
      : pump(of, pump_dependencies(frames, tun, queue_pair, follower, trace)) {
    sleeper.on_sleep = [this] { stop(); };
  }
  static Pump::Settings settings() {
    return {.link = {}, .max_ip_mtu = 1500, .seed = 1, .hash_key = {1, 2}};
  }

  void post(ToInterface&& message) { ASSERT_TRUE(inbox.post(std::move(message))); }
  void stop() { post(Stop{}); }
  /// Runs the loop until something stops it: by default its first sleep.
  void run() {
    InterfaceLoop loop({.identity = {"ibx", "mlx5_0", 1, 4711}, .pkey = kDefaultPKey},
                       {.pump = pump,
                        .tun = tun,
                        .queue_pair = queue_pair,
                        .routes = follower,
                        .sleeper = sleeper,
                        .inbox = inbox,
                        .outbox = outbox,
                        .trace = trace,
                        .log = *link::silent_logger()});
    loop.run();
    outbox.drain(answers);
  }
  /// Ends the loop once `holds`, which has to become true within 100 sleeps.
  void stop_when(std::function<bool()> holds) {
    sleeper.on_sleep = [this, holds = std::move(holds)] {
      if (holds()) return stop();
      if (sleeper.deadlines.size() < 100) return;
      ADD_FAILURE() << "the condition does not become true";
      stop();
    };
  }
  /// The time since the start.
  [[nodiscard]] Duration elapsed() const { return sleeper.time - kStart; }
  [[nodiscard]] std::uint64_t counter(const std::string& name) const {
    for (const auto& answer : answers) {
      const auto* const response = std::get_if<AdminResponse>(&answer);
      if (response == nullptr) continue;
      for (const auto& each : std::get<std::vector<control::Counter>>(*response->response)) {
        if (each.name == name) return each.value;
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  /// What the link waited for, as reported so far.
  [[nodiscard]] std::vector<std::string> taken_reports() {
    std::vector<ToControl> all;
    outbox.drain(all);
    std::vector<std::string> out;
    for (const auto& each : all) {
      if (const auto* const report = std::get_if<LinkReport>(&each))
        out.push_back(report->waiting_for);
    }
    return out;
  }
  void ask_for_counters() { post(AdminRequest{control::StatsRequest{}, {}}); }
  [[nodiscard]] static link::PortStatus active_port() {
    link::PortStatus port;
    port.active = port.sm_known = true;
    port.lid = Lid(4);
    port.gid = link::port_gid(1);
    port.pkey_index = 0;
    return port;
  }

  static constexpr TimePoint kStart{1000s};
  FakeSleeper sleeper;
  FramePool frames{512, 2048};  // first, since the others hold frames
  FakeQueuePair queue_pair;
  FakeTun tun;
  TraceRing trace{"test"};
  FakeRoutes* routes = new FakeRoutes;
  RouteFollower follower{std::unique_ptr<linux::RouteSource>(routes)};
  InterfaceMailbox inbox{16};
  ControlMailbox outbox{16};
  std::vector<ToControl> answers;
  Pump pump;
};

TEST_F(InterfaceLoopTest, SleepsUntilAnEventWhenNothingIsDue) {
  run();
  EXPECT_THAT(sleeper.deadlines, ElementsAre(kNever));
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<LinkReport>(answers[0]));
  EXPECT_EQ(std::get<Stopped>(answers[1]).why.kind, StopReason::Kind::requested);
}

TEST_F(InterfaceLoopTest, ReportsTheLinkWhenItChangesAndOnRequest) {
  std::vector<std::vector<std::string>> reports;
  sleeper.on_sleep = [&, this] {
    reports.push_back(taken_reports());
    switch (reports.size()) {
      case 1:
        return post(LinkReportRequest{});
      case 2:
        return post(PortChanged{active_port()});
      case 3:
        return post(SubnetNotice{});
      default:
        return stop();
    }
  };
  run();
  EXPECT_THAT(reports, ElementsAre(ElementsAre(HasSubstr("port")), ElementsAre(HasSubstr("port")),
                                   Contains(HasSubstr("join")), IsEmpty()));
}

TEST_F(InterfaceLoopTest, ReportsChangesToThoseWhoHaveSubscribed) {
  std::vector<control::Event> events;
  const auto take_events = [&] {
    std::vector<ToControl> all;
    outbox.drain(all);
    for (auto& each : all) {
      if (auto* const message = std::get_if<Events>(&each)) {
        std::ranges::move(message->events, std::back_inserter(events));
      }
    }
  };
  int sleeps = 0;
  sleeper.on_sleep = [&, this] {
    take_events();
    switch (++sleeps) {
      case 1:
        return post(PortChanged{active_port()});
      case 2:
        EXPECT_THAT(events, IsEmpty()) << "nobody has subscribed";
        return post(AdminRequest{control::SubscribeRequest{{.link = true}}, {}});
      case 3:
        EXPECT_THAT(events, IsEmpty()) << "nothing has changed since";
        return post(PortChanged{{}});
      default:
        return stop();
    }
  };
  run();
  ASSERT_THAT(events, SizeIs(1));
  const auto& event = std::get<control::LinkEvent>(events.front());
  EXPECT_THAT(event.changed, Contains("state"));
  EXPECT_EQ(event.info.state, "port_down");
  EXPECT_EQ(event.info.interface, "ibx");
}

TEST_F(InterfaceLoopTest, HasStaticNeighboursFromTheStart) {
  const HwAddress hardware = link::hardware(0x22, 2);
  constexpr Ipv4Address kFirst{0x0a2c0002};
  constexpr Ipv4Address kSecond{0x0a2c0003};
  post(SetNeighbours{{{kFirst, hardware, ""},
                      {Ipv4Address(0xe0000001), hardware, ""},
                      {kSecond, hardware.gid, ""}}});
  sleeper.on_sleep = [&, this] {
    const auto permanent = pump.link().get(kFirst, sleeper.time);
    ASSERT_TRUE(permanent);
    EXPECT_EQ(permanent->state, link::NeighbourState::permanent);
    EXPECT_EQ(permanent->hardware, hardware);
    const auto pin = pump.link().get(kSecond, sleeper.time);
    ASSERT_TRUE(pin);
    EXPECT_EQ(pin->pinned, hardware.gid);
    EXPECT_EQ(pump.link().neighbour_count(), 1U) << "a group is no neighbour";
    stop();
  };
  run();
}

TEST_F(InterfaceLoopTest, FollowsAChangedFileOfNeighbours) {
  const HwAddress hardware = link::hardware(0x22, 2);
  const HwAddress other = link::hardware(0x33, 3);
  constexpr Ipv4Address kReplaced{0x0a2c0002};
  constexpr Ipv4Address kPinned{0x0a2c0003};
  constexpr Ipv4Address kRemoved{0x0a2c0004};
  post(SetNeighbours{
      {{kReplaced, hardware, ""}, {kPinned, hardware, ""}, {kRemoved, hardware, ""}}});
  post(Reconfigured{
      .neighbours = {{kReplaced, other}, {kPinned, other.gid}, {kRemoved, std::nullopt}}});
  sleeper.on_sleep = [&, this] {
    EXPECT_EQ(pump.link().get(kReplaced, sleeper.time)->hardware, other);
    const auto pin = pump.link().get(kPinned, sleeper.time);
    EXPECT_EQ(pin->pinned, other.gid);
    EXPECT_NE(pin->state, link::NeighbourState::permanent);
    EXPECT_FALSE(pump.link().get(kRemoved, sleeper.time));
    stop();
  };
  run();
}

TEST_F(InterfaceLoopTest, PollsAsConfiguredSinceThen) {
  post(Reconfigured{.poll = PollMode::busy});
  queue_pair.on_receive = [this] {
    if (queue_pair.receive_calls == 10) post(Reconfigured{.poll = PollMode::event});
  };
  sleeper.on_sleep = [this] {
    EXPECT_GE(queue_pair.receive_calls, 10U) << "it sleeps although it is to poll";
    stop();
  };
  run();
}

TEST_F(InterfaceLoopTest, LooksOnceMoreAfterArming) {
  queue_pair.on_arm = [this] {
    if (queue_pair.arms > 1) return;
    auto& datagram = queue_pair.arrived.emplace_back();
    datagram.frame = frames.take();
    datagram.frame.window(0, 44);
  };
  sleeper.on_sleep = [this] {
    EXPECT_TRUE(queue_pair.arrived.empty()) << "the loop sleeps, and no event will wake it";
    stop();
  };
  run();
  EXPECT_EQ(queue_pair.arms, 1U) << "completions since arming have raised no event yet";
}

TEST_F(InterfaceLoopTest, ArmsAgainOnlyAfterAnEvent) {
  std::vector<unsigned> arms;
  sleeper.on_sleep = [this, &arms] {
    arms.push_back(queue_pair.arms);
    sleeper.completions = arms.size() == 2;
    if (arms.size() == 4) stop();
  };
  run();
  EXPECT_THAT(arms, ElementsAre(1, 1, 2, 2));
}

TEST_F(InterfaceLoopTest, ArmsAQueuePairThatWasRestarted) {
  sleeper.on_sleep = [this] {
    if (queue_pair.restarts > 0) return stop();
    queue_pair.broken = true;
  };
  run();
  EXPECT_EQ(queue_pair.restarts, 1U);
  EXPECT_EQ(queue_pair.arms, 2U);
}

TEST_F(InterfaceLoopTest, ADeletedInterfaceEndsIt) {
  tun.gone = true;
  run();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(std::get<Stopped>(answers.back()).why.kind, StopReason::Kind::deleted);
}

TEST_F(InterfaceLoopTest, RestartsABrokenQueuePairAtOnce) {
  queue_pair.broken = true;
  run();
  EXPECT_EQ(queue_pair.restarts, 1U);
  EXPECT_EQ(queue_pair.recreations, 0U);
  EXPECT_EQ(elapsed(), 0s);
  EXPECT_EQ(queue_pair.arms, 1U) << "a restarted queue pair is armed again";
}

TEST_F(InterfaceLoopTest, RestartsAQueuePairThatTheDeviceHasPutIntoError) {
  post(ObjectFailed{&tun});
  run();
  EXPECT_EQ(queue_pair.restarts, 0U) << "the event is about another object";
  post(ObjectFailed{&queue_pair});
  run();
  EXPECT_EQ(queue_pair.restarts, 1U);
}

/// No packet wakes the loop.
TEST_F(InterfaceLoopTest, RestartsAgainAfterAPauseOnAnIdleLink) {
  std::vector<Duration> restarts;
  queue_pair.on_restart = [&] {
    restarts.push_back(elapsed());
    queue_pair.broken = restarts.size() < 3;
  };
  queue_pair.broken = true;
  stop_when([&] { return !queue_pair.broken; });
  run();
  EXPECT_THAT(restarts, ElementsAre(0s, 1s, 2s));
}

TEST_F(InterfaceLoopTest, ReplacesAQueuePairThatDoesNotRestart) {
  const link::LoggedLines lines;
  queue_pair.broken = queue_pair.refuses_restart = true;
  run();
  EXPECT_THAT(lines.all(), Contains(HasSubstr("does not restart; has created another queue pair")));
  EXPECT_EQ(queue_pair.recreations, 1U);
  EXPECT_EQ(pump.link().hardware_address().qpn, queue_pair.qpn()) << "the link has its new number";
}

TEST_F(InterfaceLoopTest, TriesAgainAfterAGrowingPauseWhileBothFail) {
  queue_pair.refuses_recreation = queue_pair.refuses_restart = true;
  queue_pair.broken = true;
  std::vector<Duration> attempts;
  queue_pair.on_restart = [&] {
    attempts.push_back(elapsed());
    queue_pair.refuses_recreation = attempts.size() < 8;
  };
  stop_when([&] { return !queue_pair.refuses_recreation; });
  run();
  EXPECT_THAT(attempts, ElementsAre(0s, 1s, 3s, 7s, 15s, 31s, 47s, 63s));
  EXPECT_EQ(std::get<Stopped>(answers.back()).why.kind, StopReason::Kind::requested)
      << "the interface must not end";
}

TEST(SendWatchdogTest, StartsOverWhenItHasFound) {
  SendWatchdog watchdog;
  const verbs::RecoverableUdPort::SendProgress stuck{.completed = 7, .in_flight = 64};
  TimePoint now{1000s};
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(watchdog.is_stuck(stuck, now));
    EXPECT_EQ(watchdog.deadline(), now + SendWatchdog::kTimeout);
    now += SendWatchdog::kTimeout;
    EXPECT_TRUE(watchdog.is_stuck(stuck, now));
    EXPECT_EQ(watchdog.deadline(), kNever);
  }
}

TEST_F(InterfaceLoopTest, SendsThatDoNotCompleteAreATimeout) {
  const link::LoggedLines lines;
  queue_pair.progress = {.completed = 7, .in_flight = verbs::kSignalPeriod};
  stop_when([&] { return queue_pair.restarts > 0; });
  queue_pair.on_restart = [this] {
    EXPECT_EQ(elapsed(), SendWatchdog::kTimeout);
    ask_for_counters();
  };
  run();
  EXPECT_EQ(queue_pair.restarts, 1U);
  EXPECT_EQ(counter("tx_timeouts"), 1U);
  EXPECT_THAT(
      lines.all(),
      Contains(HasSubstr("no send has completed for 5 seconds; restarting the queue pair")));
}

TEST_F(InterfaceLoopTest, FewSendsMayWaitForeverForASignalledOne) {
  queue_pair.progress = {.completed = 0, .in_flight = verbs::kSignalPeriod - 1};
  run();
  EXPECT_THAT(sleeper.deadlines, ElementsAre(kNever));
}

TEST_F(InterfaceLoopTest, ACompletionStartsTheWatchdogAnew) {
  queue_pair.progress = {.completed = 0, .in_flight = 64};
  sleeper.on_sleep = [this] {
    ++queue_pair.progress.completed;
    if (sleeper.deadlines.size() == 4) stop();
  };
  run();
  EXPECT_EQ(queue_pair.restarts, 0U);
  for (std::size_t i = 1; i < sleeper.deadlines.size(); ++i) {
    EXPECT_GT(sleeper.deadlines[i], sleeper.deadlines[i - 1]);
  }
}

/// A queue pair that does not take sends after all.
TEST_F(InterfaceLoopTest, ReadsTheTunAgainAfterATimeout) {
  post(PortChanged{active_port()});
  sleeper.on_sleep = [this] {
    outbox.drain(answers);
    for (const auto& answer : answers) {
      const auto* const request = std::get_if<wire::SaRequest>(&answer);
      if (request == nullptr) continue;
      const auto* const join = std::get_if<wire::JoinQuery>(&request->query);
      if (join == nullptr) continue;
      post(wire::SaResponse{request->id, link::group_record(join->record.mgid)});
    }
    if (inbox.has_messages()) return;
    if (tun.to_fabric.empty() && queue_pair.restarts == 0) {
      queue_pair.room = 0;
      queue_pair.progress.in_flight = 512;
      std::vector<std::uint8_t> broadcast(84);
      broadcast[0] = 0x45;
      broadcast[3] = 84;
      broadcast[8] = 64;
      std::fill_n(broadcast.begin() + 16, 4, std::uint8_t{0xff});
      for (int i = 0; i < 5; ++i) tun.to_fabric.push_back(broadcast);
      return;
    }
    if (tun.to_fabric.empty() || sleeper.deadlines.size() > 50) stop();
  };
  queue_pair.on_restart = [this] { queue_pair.room = 100; };
  run();
  EXPECT_EQ(queue_pair.restarts, 1U);
  EXPECT_TRUE(tun.to_fabric.empty());
  EXPECT_LT(sleeper.deadlines.size(), 50U);
}

/// An SA request that cannot be passed on must not wait for a response for ever.
TEST_F(InterfaceLoopTest, ARequestThatFindsTheMailboxFullFails) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(outbox.post(link::HostGroupsChanged{}));
  post(PortChanged{active_port()});
  sleeper.on_sleep = [this] {
    EXPECT_NE(sleeper.deadlines.back(), kNever) << "the join is not repeated";
    std::vector<ToControl> full;
    outbox.drain(full);
    ask_for_counters();
    stop();
  };
  run();
  EXPECT_GE(counter("messages_lost"), 1U);
}

// --- Handover ------------------------------------------------------------------------------------

class HeldLoopTest : public InterfaceLoopTest {
 protected:
  explicit HeldLoopTest(const Pump::Settings& of = settings()) : InterfaceLoopTest(of) {
    pump.set_mode(PumpMode::held, kStart);
  }

  /// Runs the steps, each when the loop sleeps with nothing left to do, and then ends the loop. The
  /// SA grants all joins.
  void run_with_sa(std::deque<std::function<void()>> steps = {}) {
    sleeper.on_sleep = [this, steps = std::move(steps)]() mutable {
      std::vector<ToControl> all;
      outbox.drain(all);
      bool granted = false;
      for (auto& each : all) {
        if (const auto* const request = std::get_if<wire::SaRequest>(&each)) {
          if (const auto* const join = std::get_if<wire::JoinQuery>(&request->query)) {
            post(wire::SaResponse{request->id, link::group_record(join->record.mgid)});
            granted = true;
          }
        }
        if (const auto* const reached = std::get_if<ModeReached>(&each)) {
          modes.push_back(reached->mode);
        }
        if (auto* const saved = std::get_if<CacheSaved>(&each)) pages.push_back(saved->page);
      }
      if (granted) return;
      if (steps.empty()) return stop();
      steps.front()();
      steps.pop_front();
    };
    run();
  }
  [[nodiscard]] static SavedCache saved() {
    SavedCache page;
    page.neighbours.push_back({.address = Ipv4Address(0x0a2c0002),
                               .hardware = link::hardware(0x22, 2),
                               .path = {.attributes = {.dlid = Lid(7), .sl = {}}, .mtu = 2048}});
    return page;
  }

  std::vector<PumpMode> modes;
  std::vector<SavedCache> pages;
};

class HeldTapTest : public HeldLoopTest {
 protected:
  HeldTapTest() : HeldLoopTest(of_tap()) {}
  static Pump::Settings of_tap() {
    auto of = settings();
    of.ethernet = true;
    of.stations = 16;
    return of;
  }
  [[nodiscard]] std::vector<ethernet::SavedStation> served() {
    return pump.host().ethernet()->stations()->table().save(sleeper.time);
  }
  [[nodiscard]] bool is_in(const IpAddress& group) {
    return std::ranges::any_of(pump.link().groups(), [&](const link::GroupInfo& one) {
      return one.address == group && one.state == link::GroupState::full;
    });
  }

  static constexpr MacAddress kStation{0x0200'0000'0011};
  static constexpr Ipv4Address kAddress{0x0a2c0011};
  static constexpr Ipv4Address kGroup{0xef010203};
};

/// The other daemon still answers for them, but multicast for them must not wait for their reports.
TEST_F(HeldTapTest, ListensForStationsAtOnceAndServesThemWithTheTap) {
  auto cache = saved();
  cache.stations = {{kAddress, kStation, false, 3s}};
  cache.station_groups = {{kGroup, kStation}};
  post(RestoreCache{cache});
  post(PortChanged{active_port()});
  post(HostChanged{});
  run_with_sa({[this] {
                 EXPECT_THAT(modes, ElementsAre(PumpMode::held));
                 EXPECT_TRUE(is_in(kGroup));
                 EXPECT_THAT(served(), IsEmpty());
                 post(SetMode{PumpMode::active});
               },
               [&, this] {
                 EXPECT_EQ(served(), cache.stations);
                 EXPECT_GT(pump.link().counters()[link::Counter::announcements_sent], 0U);
                 for (const std::uint64_t from : {0, 1}) post(SaveCache{{from}, {}});
               },
               [&, this] {
                 ASSERT_THAT(pages, SizeIs(2));
                 EXPECT_EQ(pages[0].stations, served());
                 EXPECT_EQ(pages[0].station_groups, cache.station_groups);
                 EXPECT_THAT(pages[1].stations, IsEmpty()) << "only in the first page";
               }});
}

TEST_F(HeldLoopTest, ReportsOnceThatItIsReady) {
  post(PortChanged{active_port()});
  post(HostChanged{});
  run_with_sa();
  EXPECT_THAT(modes, ElementsAre(PumpMode::held));
}

TEST_F(HeldLoopTest, IsReadyIfThePortIsNot) {
  post(HostChanged{});
  run_with_sa();
  EXPECT_THAT(modes, ElementsAre(PumpMode::held));
}

TEST_F(HeldLoopTest, IsNotReadyBeforeItKnowsTheHost) {
  post(PortChanged{active_port()});
  run_with_sa();
  EXPECT_THAT(modes, IsEmpty()) << "the host may be in more groups";
}

TEST_F(HeldLoopTest, RestoresTheCacheOnceTheLinkIsUp) {
  post(RestoreCache{saved()});
  post(PortChanged{active_port()});
  post(HostChanged{});
  run_with_sa();
  EXPECT_EQ(pump.link().counters()[link::Counter::neighbours_created], 1U);
  EXPECT_THAT(modes, ElementsAre(PumpMode::held));
}

TEST_F(InterfaceLoopTest, ConfirmsAChangedMode) {
  std::vector<PumpMode> modes;
  post(SetMode{PumpMode::retired});
  run();
  for (const auto& each : answers) {
    if (const auto* const reached = std::get_if<ModeReached>(&each)) modes.push_back(reached->mode);
  }
  EXPECT_THAT(modes, ElementsAre(PumpMode::retired));
  EXPECT_EQ(pump.mode(), PumpMode::retired);
}

TEST_F(InterfaceLoopTest, SavesTheCacheWithTheMtuOfTheInterface) {
  bool called = false;
  post(SaveCache{{}, [&called](SavedCache) { called = true; }});
  run();
  const auto at = std::ranges::find_if(
      answers, [](const auto& each) { return std::holds_alternative<CacheSaved>(each); });
  ASSERT_NE(at, answers.end());
  EXPECT_EQ(std::get<CacheSaved>(*at).page.mtu, 0U) << "the link was never up";
  EXPECT_EQ(std::get<CacheSaved>(*at).page.selection, (SavedSelection{{"mlx5_0", 1}, false, 1}));
  EXPECT_FALSE(called) << "that is for the control thread";
}

}  // namespace
}  // namespace ipoib::daemon
