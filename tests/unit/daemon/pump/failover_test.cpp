// The loop of an interface with a backup port.
#include <gmock/gmock.h>

#include <cerrno>
#include <deque>

#include "daemon/pump/interface_loop.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "tests/on_link.hpp"
#include "tests/unit/daemon/pump/fake_ports.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Ipv4Address kFirstPeer{0x0a2c0002};
constexpr Ipv4Address kSecondPeer{0x0a2c0003};

class TwoPortsTest : public ::testing::Test {
 protected:
  using Step = std::function<void()>;

  Pump make_pump(FakeQueuePair& queue_pair, PortRole role, PumpMode mode) {
    return Pump{{.link = {},
                 .max_ip_mtu = 1500,
                 .seed = 1,
                 .hash_key = {1, 2},
                 .first_request = first_link_request(InterfaceNumber(1), role),
                 .mode = mode},
                pump_dependencies(frames, tun, queue_pair, follower, trace)};
  }
  void post(ToInterface&& message) { ASSERT_TRUE(inbox.post(std::move(message))); }
  void set_port(PortRole role, const link::PortStatus& status) { post(PortChanged{status, role}); }
  [[nodiscard]] static link::PortStatus port_of(PortRole role) {
    link::PortStatus port;
    port.active = port.sm_known = true;
    port.lid = Lid(role == PortRole::primary ? 4 : 5);
    port.sm_lid = Lid(1);
    port.gid = link::port_gid(role == PortRole::primary ? 1 : 2);
    port.pkey_index = 0;
    return port;
  }
  static HostView host() {
    HostView host;
    host.addresses.push_back({Ipv4Address(0x0a2c0001), 24});
    host.tables = test::all_on_link();
    return host;
  }
  static link::SavedPage cache() {
    link::SavedPage page;
    page.neighbours.push_back({.address = kFirstPeer,
                               .hardware = link::hardware(0x22, 9),
                               .path = {.attributes = {.dlid = Lid(7), .sl = {}}, .mtu = 2048}});
    return page;
  }
  /// Both ports come up, with a neighbour on the primary one. Then runs the steps, each when the
  /// loop has nothing left to do. The SA grants all joins.
  void run(std::deque<Step> steps) {
    post(HostChanged{host()});
    for (const PortRole role : kPortRoles) set_port(role, port_of(role));
    steps.push_front([this] {
      ASSERT_EQ(primary.mode(), PumpMode::active);
      ASSERT_EQ(primary.link().restore(cache(), sleeper.time), 1U);
      pair.sent.clear();
    });
    sleeper.on_sleep = [this, steps = std::move(steps)]() mutable {
      if (grant_joins()) return;
      if (steps.empty()) return post(Stop{});
      steps.front()();
      steps.pop_front();
    };
    InterfaceLoop loop({.identity = {"ibx", "mlx5_0", 1, 4711}, .pkey = kDefaultPKey},
                       with_backup({.reselect = Reselect::failure}));
    loop.run();
    (void)grant_joins();
  }
  [[nodiscard]] InterfaceLoop::Dependencies with_backup(const SelectionSettings& selection) {
    return {.pump = primary,
            .tun = tun,
            .queue_pair = pair,
            .routes = follower,
            .sleeper = sleeper,
            .inbox = inbox,
            .outbox = outbox,
            .trace = trace,
            .log = *link::silent_logger(),
            .backup = BackupPort{.port = {"mlx5_1", 2},
                                 .pump = backup,
                                 .queue_pair = backup_pair,
                                 .selection = selection}};
  }
  bool grant_joins() {
    std::vector<ToControl> all;
    outbox.drain(all);
    bool has_granted = false;
    for (auto& each : all) {
      if (const auto* const report = std::get_if<LinkReport>(&each)) active = report->active;
      if (std::holds_alternative<PortReleased>(each)) ++released;
      const auto* const reached = std::get_if<ModeReached>(&each);
      if (reached != nullptr && reached->mode == PumpMode::held) ready_on.push_back(active);
      if (const auto* const saved = std::get_if<CacheSaved>(&each)) saved_page = saved->page;
      if (auto* const response = std::get_if<AdminResponse>(&each)) {
        responses.push_back(std::move(response->response));
      }
      const auto* const request = std::get_if<wire::SaRequest>(&each);
      const auto* const join =
          request != nullptr ? std::get_if<wire::JoinQuery>(&request->query) : nullptr;
      if (join == nullptr) continue;
      post(wire::SaResponse{request->id, link::group_record(join->record.mgid)});
      has_granted = true;
    }
    return has_granted;
  }
  Step ask(control::InterfaceRequest request) {
    return [this, request = std::move(request)] { post(AdminRequest{request, {}}); };
  }
  Step lose(PortRole role) {
    return [this, role] { set_port(role, {}); };
  }
  [[nodiscard]] std::uint64_t counter(const std::string& name) const {
    for (const auto& response : responses) {
      const auto* const counters =
          response ? std::get_if<std::vector<control::Counter>>(&*response) : nullptr;
      if (counters == nullptr) continue;
      for (const auto& each : *counters) {
        if (each.name == name) return each.value;
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  [[nodiscard]] int last_error() const {
    return responses.empty() || responses.back() ? 0 : responses.back().error().code;
  }

  FakeSleeper sleeper;
  FramePool frames{1024, 2048};  // first, since the others hold frames
  FakeQueuePair pair;
  FakeQueuePair backup_pair;
  FakeTun tun;
  TraceRing trace{"test"};
  FakeRoutes* routes = new FakeRoutes;
  RouteFollower follower{std::unique_ptr<linux::RouteSource>(routes)};
  InterfaceMailbox inbox{64};
  ControlMailbox outbox{256};
  Pump primary{make_pump(pair, PortRole::primary, PumpMode::active)};
  Pump backup{make_pump(backup_pair, PortRole::backup, PumpMode::standby)};
  std::vector<control::Response> responses;
  std::size_t released = 0;  ///< parts
  PortRole active = PortRole::primary;
  std::vector<PortRole> ready_on;  ///< the active port at each report that the interface is held
  SavedCache saved_page;           ///< for the next daemon
};

TEST_F(TwoPortsTest, TheBackupIsReadyAndSilent) {
  run({[this] {
    EXPECT_EQ(backup.mode(), PumpMode::standby);
    EXPECT_EQ(backup.link().state(), link::LinkState::up);
    EXPECT_THAT(backup_pair.attached, SizeIs(pair.attached.size()));
    EXPECT_THAT(backup_pair.sent, IsEmpty());
    EXPECT_TRUE(tun.carrier);
  }});
}

TEST_F(TwoPortsTest, TheHostDoesNotSeeTheLossOfAPort) {
  run({[this] {
         pair.sent.clear();
         set_port(PortRole::primary, {});
       },
       [this] {
         EXPECT_EQ(primary.mode(), PumpMode::standby);
         EXPECT_EQ(backup.mode(), PumpMode::active);
         EXPECT_EQ(active, PortRole::backup);
         EXPECT_THAT(tun.carriers, Each(true)) << "not even for a moment";
         EXPECT_THAT(pair.sent, IsEmpty());
         EXPECT_FALSE(backup_pair.sent.empty()) << "the new address is announced";
         const auto peer = backup.link().get(kFirstPeer, sleeper.time);
         ASSERT_TRUE(peer) << "its neighbours are handed over";
         EXPECT_EQ(peer->hardware, link::hardware(0x22, 9));
       }});
}

TEST_F(TwoPortsTest, ManyNeighboursAreHandedOver) {
  static constexpr std::uint32_t kNeighbours = 2 * kSavedPage + 7;
  run({[this] {
         link::SavedPage page;
         for (std::uint32_t i = 0; i < kNeighbours; ++i) {
           page.neighbours.push_back(cache().neighbours[0]);
           page.neighbours.back().address = Ipv4Address(0x0a2c0100 + i);
         }
         ASSERT_EQ(primary.link().restore(page, sleeper.time), kNeighbours);
       },
       lose(PortRole::primary),
       [this] { EXPECT_EQ(backup.link().neighbour_count(), kNeighbours + 1); }});
}

TEST_F(TwoPortsTest, TheHostSeesTheSpeedOfThePortThatServes) {
  run({[this] {
         auto port = port_of(PortRole::primary);
         port.rate_mbps = 40'000;
         set_port(PortRole::primary, port);
         port = port_of(PortRole::backup);
         port.rate_mbps = 10'000;
         set_port(PortRole::backup, port);
       },
       [this] { EXPECT_EQ(tun.speed, 40'000U); }, lose(PortRole::primary),
       [this] { EXPECT_EQ(tun.speed, 10'000U); }, lose(PortRole::backup),
       [this] { EXPECT_EQ(tun.speed, 10'000U) << "a port that is down has none"; }});
}

TEST_F(TwoPortsTest, APortWhoseQueuePairCannotBeRepairedIsLost) {
  run({[this] { pair.broken = pair.refuses_restart = pair.refuses_recreation = true; },
       [this] {
         EXPECT_EQ(active, PortRole::backup);
         EXPECT_TRUE(tun.carrier);
       }});
}

TEST_F(TwoPortsTest, AddressesOfAnotherSubnetAreNotHandedOver) {
  run({[this] {
         auto other = port_of(PortRole::backup);
         other.sm_lid = Lid(0x99);
         set_port(PortRole::backup, other);
       },
       lose(PortRole::primary),
       [this] {
         EXPECT_EQ(backup.mode(), PumpMode::active);
         EXPECT_FALSE(backup.link().get(kFirstPeer, sleeper.time));
       }});
}

TEST_F(TwoPortsTest, WithoutAnyPortThereIsNoCarrier) {
  run({lose(PortRole::backup), lose(PortRole::primary),
       [this] {
         EXPECT_FALSE(tun.carrier);
         set_port(PortRole::backup, port_of(PortRole::backup));
       },
       [this] {
         EXPECT_EQ(active, PortRole::backup);
         EXPECT_TRUE(tun.carrier);
         EXPECT_EQ(tun.mtu, 1500U);
       }});
}

TEST_F(TwoPortsTest, APortWithoutThePKeyIsLost) {
  run({[this] {
         auto port = port_of(PortRole::primary);
         port.pkey_index.reset();
         set_port(PortRole::primary, port);
       },
       [this] { EXPECT_EQ(active, PortRole::backup); }});
}

TEST_F(TwoPortsTest, APortWithoutASubnetManagerIsWorse) {
  run({[this] { sleeper.time += 20s; },  // the backup is steady
       [this] {
         auto port = port_of(PortRole::primary);
         port.sm_known = false;
         set_port(PortRole::primary, port);
       },
       [this] { EXPECT_EQ(active, PortRole::backup); }});
}

TEST_F(TwoPortsTest, TheOldPortPassesOnWhatPeersStillSend) {
  run({ask(control::FailoverRequest{}),
       [this] {
         std::vector<std::uint8_t> packet(20);
         packet[0] = 0x45;
         packet[3] = 20;
         auto& datagram = pair.arrived.emplace_back();
         datagram.frame = frames.take();
         datagram.frame.window(0, link::kHeadroom + packet.size());
         datagram.frame.bytes()[0] = 0x08;  // IPv4
         datagram.frame.bytes()[1] = 0;
         std::ranges::copy(packet, datagram.frame.bytes().begin() + link::kHeadroom);
       },
       [] {}, [this] { EXPECT_THAT(tun.from_fabric, SizeIs(1)); }});
}

TEST_F(TwoPortsTest, TheOperatorMovesIt) {
  run({ask(control::FailoverRequest{}), ask(control::FailoverRequest{"mlx5_1", 2}),
       [this] {
         EXPECT_EQ(active, PortRole::backup);
         EXPECT_EQ(responses.size(), 2U);
         EXPECT_EQ(last_error(), 0);
       },
       ask(control::FailoverRequest{"mlx5_1", 1}), [this] { EXPECT_EQ(last_error(), ENODEV); },
       lose(PortRole::primary), ask(control::FailoverRequest{"mlx5_0", 1}),
       [this] {
         EXPECT_EQ(last_error(), ENETDOWN);
         EXPECT_EQ(active, PortRole::backup);
       },
       ask(control::StatsRequest{}), [] {}});
  EXPECT_EQ(counter("failovers"), 1U);
}

TEST_F(TwoPortsTest, InformationShowsBothPorts) {
  run({lose(PortRole::primary), ask(control::InfoRequest{}), [] {}});
  const auto info = std::get<control::InterfaceInfo>(*responses.at(0));
  EXPECT_EQ(info.device, "mlx5_1");
  EXPECT_EQ(info.port, 2);
  EXPECT_EQ(info.gid, link::port_gid(2));
  ASSERT_THAT(info.ports, SizeIs(2));
  EXPECT_EQ(info.ports[0].device, "mlx5_0");
  EXPECT_EQ(info.ports[0].role, "primary");
  EXPECT_EQ(info.ports[0].state, "port_down");
  EXPECT_FALSE(info.ports[0].active);
  EXPECT_EQ(info.ports[0].lid, Lid());
  EXPECT_FALSE(info.ports[0].waiting_for.empty());
  EXPECT_EQ(info.ports[1].device, "mlx5_1");
  EXPECT_EQ(info.ports[1].port, 2);
  EXPECT_EQ(info.ports[1].role, "backup");
  EXPECT_TRUE(info.ports[1].active);
  EXPECT_EQ(info.ports[1].waiting_for, "");
  EXPECT_EQ(info.ports[1].gid, link::port_gid(2));
  EXPECT_EQ(info.ports[1].lid, Lid(5));
  EXPECT_EQ(info.ports[1].sm_lid, Lid(1));
}

TEST_F(TwoPortsTest, APortWhoseDeviceWasRepairedHasANewPart) {
  FakeQueuePair new_pair;
  Pump part{make_pump(new_pair, PortRole::primary, PumpMode::standby)};
  pair.counted.send_errors = 5;
  run({lose(PortRole::primary), ask(control::StatsRequest{}),
       [&] {
         EXPECT_EQ(released, 0U);
         post(PortReplaced{PortRole::primary, &part, &new_pair});
         post(SetNeighbours{{{kSecondPeer, link::hardware(0x33, 3), ""}}});
         set_port(PortRole::primary, port_of(PortRole::primary));
       },
       ask(control::StatsRequest{}),
       [&] {
         EXPECT_EQ(released, 1U) << "the control thread may destroy the old one";
         EXPECT_EQ(part.link().state(), link::LinkState::up);
         EXPECT_EQ(part.mode(), PumpMode::standby);
         EXPECT_TRUE(part.link().get(kSecondPeer, sleeper.time));
         EXPECT_EQ(new_pair.sent.size(), 0U);
       },
       lose(PortRole::backup),
       [&] {
         EXPECT_EQ(active, PortRole::primary);
         EXPECT_EQ(part.mode(), PumpMode::active);
         EXPECT_FALSE(new_pair.sent.empty()) << "it knows the host's address";
       }});
  ASSERT_EQ(responses.size(), 2U);
  const auto before = std::get<std::vector<control::Counter>>(*responses[0]);
  const auto after = std::get<std::vector<control::Counter>>(*responses[1]);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].is_gauge) continue;
    EXPECT_LE(before[i].value, after[i].value) << before[i].name;
  }
}

TEST_F(TwoPortsTest, APartOfThePortThatServesIsReplacedInItsPlace) {
  FakeQueuePair new_pair;
  Pump part{make_pump(new_pair, PortRole::primary, PumpMode::standby)};
  run({lose(PortRole::backup), lose(PortRole::primary),
       [&] {
         EXPECT_FALSE(tun.carrier);
         post(PortReplaced{PortRole::primary, &part, &new_pair});
         set_port(PortRole::primary, port_of(PortRole::primary));
       },
       [&] {
         EXPECT_EQ(active, PortRole::primary);
         EXPECT_EQ(part.mode(), PumpMode::active);
         EXPECT_TRUE(tun.carrier);
       }});
}

TEST_F(TwoPortsTest, APortThatPassesNothingIsLeft) {
  run({[this] {
         auto port = port_of(PortRole::primary);
         port.silent = true;
         set_port(PortRole::primary, port);
       },
       [this] { EXPECT_EQ(active, PortRole::backup); }, ask(control::InfoRequest{}), [] {}});
  const auto info = std::get<control::InterfaceInfo>(*responses.at(0));
  EXPECT_EQ(info.ports[0].state, "up");
  EXPECT_NE(info.ports[0].waiting_for.find("passes nothing"), std::string::npos);
}

TEST_F(TwoPortsTest, NoCounterBecomesSmaller) {
  pair.counted.send_errors = 5;
  run({ask(control::StatsRequest{}), [] {}, lose(PortRole::primary), ask(control::StatsRequest{}),
       [] {}});
  ASSERT_EQ(responses.size(), 2U);
  const auto before = std::get<std::vector<control::Counter>>(*responses[0]);
  const auto after = std::get<std::vector<control::Counter>>(*responses[1]);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].is_gauge) continue;
    EXPECT_LE(before[i].value, after[i].value) << before[i].name;
  }
}

TEST_F(TwoPortsTest, TimeoutsOfAPartThatWasReplacedStillCount) {
  FakeQueuePair new_pair;
  Pump part{make_pump(new_pair, PortRole::primary, PumpMode::standby)};
  pair.on_restart = [this] { pair.progress = {}; };
  std::deque<Step> steps{
      [this] { pair.progress = {.completed = 7, .in_flight = verbs::kSignalPeriod}; }};
  for (int i = 0; i < 10; ++i) steps.emplace_back([] {});
  for (const Step& step :
       std::initializer_list<Step>{lose(PortRole::primary),
                                   [&] {
                                     post(PortReplaced{PortRole::primary, &part, &new_pair});
                                   },
                                   ask(control::StatsRequest{}), [] {}}) {
    steps.push_back(step);
  }
  run(std::move(steps));
  EXPECT_EQ(pair.restarts, 1U);
  EXPECT_EQ(counter("tx_timeouts"), 1U);
}

TEST_F(TwoPortsTest, OfTwoPortsOneBecomesActive) {
  run({[this] { post(SetMode{PumpMode::retired}); },
       [this] {
         EXPECT_EQ(primary.mode(), PumpMode::retired);
         EXPECT_EQ(backup.mode(), PumpMode::retired);
         post(SetMode{PumpMode::active});
       },
       [this] {
         EXPECT_EQ(primary.mode(), PumpMode::active);
         EXPECT_EQ(backup.mode(), PumpMode::standby);
       }});
}

TEST_F(TwoPortsTest, StaticNeighboursAreOnBothPorts) {
  post(SetNeighbours{{{kSecondPeer, link::hardware(0x33, 3), ""}}});
  run({ask(control::SetRequest{.address = kFirstPeer, .hardware = link::hardware(0x44, 4)}),
       [this] {
         EXPECT_TRUE(backup.link().get(kSecondPeer, sleeper.time));
         ASSERT_TRUE(backup.link().get(kFirstPeer, sleeper.time));
         EXPECT_EQ(backup.link().get(kFirstPeer, sleeper.time)->hardware, link::hardware(0x44, 4));
       },
       ask(control::DeleteRequest{kFirstPeer}), lose(PortRole::primary),
       [this] {
         EXPECT_TRUE(backup.link().get(kSecondPeer, sleeper.time));
         EXPECT_FALSE(backup.link().get(kFirstPeer, sleeper.time)) << "it was deleted on both";
       }});
}

TEST_F(TwoPortsTest, SubscribersGetEventsOfThePortThatServes) {
  run({ask(control::SubscribeRequest{{.neighbours = true, .link = true}, {}}),
       lose(PortRole::primary), [this] {
         EXPECT_TRUE(backup.link().changes().wants_neighbours());
         EXPECT_FALSE(primary.link().changes().wants_neighbours());
       }});
}

/// Takes over from another daemon.
class TakingOverTest : public TwoPortsTest {
 protected:
  TakingOverTest() {
    primary.set_mode(PumpMode::held, sleeper.time);
    backup.set_mode(PumpMode::held, sleeper.time);
    post(HostChanged{host()});
  }
  /// Runs until nothing happens any more after the report that it is ready; then the interface
  /// serves, and one minute passes.
  void take_over(const SelectionSettings& selection) {
    sleeper.on_sleep = [this, minute = false]() mutable {
      const bool has_granted = grant_joins();
      const bool is_over = !ready_on.empty() || sleeper.deadlines.size() > 100;
      if (has_granted || !is_over) return;
      if (minute) return post(Stop{});
      minute = true;
      post(SetMode{PumpMode::active});
      post(SaveCache{{}, {}});
      sleeper.time += 1min;
    };
    InterfaceLoop loop({.identity = {"ibx", "mlx5_0", 1, 4711}, .pkey = kDefaultPKey},
                       with_backup(selection));
    loop.run();
  }
  [[nodiscard]] static SavedCache saved(const PortName& port, bool is_chosen) {
    return {cache(), {port, is_chosen, 1}, {}, {}};
  }
};

TEST_F(TakingOverTest, WaitsForThePortThatWillServe) {
  set_port(PortRole::backup, port_of(PortRole::backup));
  take_over({});
  EXPECT_THAT(ready_on, ElementsAre(PortRole::backup));
}

TEST_F(TakingOverTest, ServesByThePortThatTheOperatorHasChosenForTheOtherDaemon) {
  post(RestoreCache{saved({"mlx5_1", 2}, true)});
  for (const PortRole role : kPortRoles) set_port(role, port_of(role));
  take_over({.reselect = Reselect::always});
  EXPECT_THAT(ready_on, ElementsAre(PortRole::backup));
  EXPECT_EQ(active, PortRole::backup) << "it stays there";
  EXPECT_THAT(saved_page.neighbours, SizeIs(1));
  EXPECT_EQ(saved_page.selection, (SavedSelection{{"mlx5_1", 2}, true, 1}));
}

TEST_F(TakingOverTest, ServesByThePrimaryPortIfTheOtherDaemonsPortIsUnknown) {
  post(RestoreCache{saved({"mlx5_2", 1}, true)});
  for (const PortRole role : kPortRoles) set_port(role, port_of(role));
  take_over({});
  EXPECT_THAT(ready_on, ElementsAre(PortRole::primary));
  EXPECT_THAT(saved_page.neighbours, IsEmpty()) << "maybe of another subnet";
}

class TakingOverOnAnotherPort : public TakingOverTest,
                                public ::testing::WithParamInterface<bool> {};

TEST_P(TakingOverOnAnotherPort, HasTheNeighboursInOneSubnet) {
  const bool is_one_subnet = GetParam();
  post(RestoreCache{saved({"mlx5_1", 2}, false)});
  auto lost = port_of(PortRole::backup);
  if (!is_one_subnet) lost.sm_lid = Lid(0x99);
  set_port(PortRole::backup, lost);
  set_port(PortRole::backup, {});
  set_port(PortRole::primary, port_of(PortRole::primary));
  take_over({});
  EXPECT_THAT(ready_on, ElementsAre(PortRole::primary));
  EXPECT_THAT(saved_page.neighbours, SizeIs(is_one_subnet ? 1 : 0));
}
INSTANTIATE_TEST_SUITE_P(All, TakingOverOnAnotherPort, ::testing::Bool());

}  // namespace
}  // namespace ipoib::daemon
